"""Make a Python function of an AST, so that Numba can compile it."""

from __future__ import annotations

import ast
import builtins
import types
from collections.abc import Mapping
from typing import Any

from kerneldsl.analysis.library_names import outside_value
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import Transformer, copy_tree, walk_here
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.lowering.numba_input import rename_locals, return_from_one_block
from kerneldsl.lowering.types import numba_class

__all__ = ["build_function"]

#: Global names that Numba takes for Python's own functions alone; a program may use them otherwise.
_FIXED_NAMES = {"len": len, "range": range, "slice": slice}


def build_function(
    tree: ast.FunctionDef, name: str, namespace: Mapping[str, Any], filename: str
) -> types.FunctionType:
    """Compile a function's AST.

    The tree is not changed; nodes without a place take their parent's. The namespace, everything
    that outside names are bound to, becomes the function's globals. Numba reports errors and debug
    information with the user's file and the lines of the nodes. Defining the function runs none of
    the user's code.
    """
    definition = _without_places_beyond_lines(tree)
    renamed = {
        name: f"{RESERVED_PREFIX}outside_{name}"
        for name, own in _FIXED_NAMES.items()
        if namespace.get(name, own) is not own
    }
    if renamed:
        for node in walk_here(definition):
            if isinstance(node, ast.Name):
                node.id = renamed.get(node.id, node.id)
        namespace = {renamed.get(known, known): value for known, value in namespace.items()}
    namespace = dict(namespace)
    _NarrowTypes(namespace).visit(definition)
    rename_locals(definition)
    return_from_one_block(definition)
    definition.name = name
    module = ast.fix_missing_locations(ast.Module([definition], []))
    code = compile(module, filename, "exec", dont_inherit=True)
    # Without a module's name: of a function that has one, Numba imports the module.
    scope = {"__builtins__": builtins, **namespace}
    exec(code, scope)  # runs one def statement
    function = scope.pop(name)
    assert isinstance(function, types.FunctionType)
    if name in namespace:
        scope[name] = namespace[name]
    return function


class _NarrowTypes(Transformer):
    """Lets the classes of narrow floats, such as ``np.float16``, name our Numba types."""

    def __init__(self, namespace: dict[str, Any]) -> None:
        self._namespace = namespace

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name of a class."""
        return self._renamed(node) or node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Replace a class of a module."""
        return self._renamed(node) or self.generic_visit(node)

    def _renamed(self, node: ast.expr) -> ast.expr | None:
        found = numba_class(outside_value(node, self._namespace))
        if found is None:
            return None
        name = f"{RESERVED_PREFIX}{found}"
        self._namespace[name] = found
        return ast.copy_location(load(name), node)


def _without_places_beyond_lines(tree: ast.FunctionDef) -> ast.FunctionDef:
    """Return a copy without nodes that end before they begin, which ``compile`` refuses.

    A pass that puts a user's expression into a new one may leave such nodes, for instance where
    code of two files meets.
    """
    copied = copy_tree(tree)
    for node in walk_here(copied):
        line, end = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
        if line is None or end is None:
            continue
        start_column = getattr(node, "col_offset", 0)
        end_column = getattr(node, "end_col_offset", None) or 0
        if end < line or (end == line and end_column < start_column):
            node.__dict__.update(end_lineno=line, end_col_offset=start_column)
    return copied
