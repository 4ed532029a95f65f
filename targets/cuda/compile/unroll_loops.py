"""Mark the loops that arrays of a thread's own are indexed by: registers have no index.

Unless such a loop is unrolled in full, the array lies in local memory, which is the device's. LLVM
unrolls short loops by itself; of a longer one it has to be told.
"""

from __future__ import annotations

import ast
from typing import Any

from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.lowering.trees import copy_tree
from targets.cuda.intrinsics.unroll import UNROLL, UNROLL_NAME

__all__ = ["unroll_loops"]

#: Elements of an array that may be in registers, of which a thread has 255.
MAX_TURNS = 64
_PARTS_OF_A_NUMBER = (ast.Constant, ast.Name, ast.BinOp, ast.operator, ast.expr_context)
_LEAVES = (ast.Break, ast.Continue, ast.Return)
_LOOPS = (ast.For, ast.While)


def unroll_loops(
    unit: FunctionUnit, tree: ast.FunctionDef
) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the tree with marks in such loops, and what they call.

    They have a number of turns that is known, hold no loop themselves, and are left at their end
    alone.
    """
    declares = {name for name, use in unit.uses.items() if use.intrinsic.name == "local.array"}
    arrays = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id in declares
    }
    if not arrays:
        return tree, {}
    constants = {name: captured.value for name, captured in unit.constants.items()}
    return _Marker(arrays, constants).visit(copy_tree(tree)), {UNROLL_NAME: UNROLL}


class _Marker(ast.NodeTransformer):
    def __init__(self, arrays: set[str], constants: dict[str, Any]) -> None:
        self._arrays = arrays
        self._constants = constants

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        match node:
            case ast.For(ast.Name(variable), ast.Call(ast.Name("range"), bounds), body, []) if (
                self._is_short(bounds) and self._is_indexed(body, variable)
            ):
                mark = ast.Expr(ast.Call(load(UNROLL_NAME), [], []))
                ast.fix_missing_locations(ast.copy_location(mark, body[-1]))
                body.append(mark)
        return node

    def _is_short(self, bounds: list[ast.expr]) -> bool:
        try:
            turns = len(range(*map(self._number, bounds)))
        except (TypeError, ValueError, ArithmeticError):
            return False
        return turns <= MAX_TURNS

    def _number(self, node: ast.expr) -> Any:
        """Return a number that is known.

        Raises
        ------
        ValueError
            Where it is not.
        """
        for each in ast.walk(node):
            is_known = not isinstance(each, ast.Name) or each.id in self._constants
            if not (is_known and isinstance(each, _PARTS_OF_A_NUMBER)):
                raise ValueError(ast.unparse(node))
        code = compile(ast.Expression(node), "<number>", "eval")
        return eval(code, {"__builtins__": {}}, self._constants)  # noqa: S307 - of numbers alone

    def _is_indexed(self, body: list[ast.stmt], variable: str) -> bool:
        """Return whether an array is indexed by a variable, in a body that can be marked."""
        nodes = [each for statement in body for each in ast.walk(statement)]
        if any(isinstance(each, _LEAVES + _LOOPS) for each in nodes):
            return False
        return any(
            isinstance(each, ast.Subscript)
            and isinstance(each.value, ast.Name)
            and each.value.id in self._arrays
            and any(isinstance(n, ast.Name) and n.id == variable for n in ast.walk(each.slice))
            for each in nodes
        )
