"""Take accesses together with the hints for caches that stand around them.

``kd_load_0(a[i])`` becomes ``kd_load_0_hinted(a, i)``, and ``a[i] = kd_store_0(v)`` the statement
``kd_store_0_hinted(a, i, v)``.
"""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import Transformer, copy_tree
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.language.intrinsics.intrinsic import Typing
from targets.cuda.intrinsics.hinted import hinted_access

__all__ = ["hint_accesses"]


def hint_accesses(
    unit: FunctionUnit, tree: ast.FunctionDef
) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the tree with such calls, and what they call.

    A hint whose access has gone elsewhere is left as it is, and means nothing.
    """
    hints = {n: use for n, use in unit.uses.items() if use.intrinsic.typing is Typing.ELEMENT}
    if not hints:
        return tree, {}
    rewriter = _Rewriter(hints)
    return rewriter.visit(copy_tree(tree)), rewriter.found


class _Rewriter(Transformer):
    def __init__(self, hints: dict[str, IntrinsicUse]) -> None:
        self._hints = hints
        #: Name of each access to what performs it.
        self.found: dict[str, Any] = {}

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(ast.Name(name), [ast.Subscript() as element]) if self._is(name, "load"):
                return self._access(node, name, [element.value, element.slice])
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        self.generic_visit(node)
        match node:
            case ast.Assign([ast.Subscript() as element], ast.Call(ast.Name(name), [value])) if (
                self._is(name, "store")
            ):
                call = self._access(node.value, name, [element.value, element.slice, value])
                return ast.copy_location(ast.Expr(call), node)
        return node

    def _is(self, name: str, word: str) -> bool:
        return name in self._hints and self._hints[name].intrinsic.name == word

    def _access(self, node: ast.expr, name: str, arguments: list[ast.expr]) -> ast.Call:
        hinted = f"{name}_hinted"
        self.found[hinted] = hinted_access(self._hints[name])
        function = ast.copy_location(load(hinted), node)
        return ast.copy_location(ast.Call(function, arguments, []), node)
