"""Give the array elements in the range of a loop in which threads take turns names of their own.

``for k in range(starts[row] + lane, starts[row + 1], 32)`` becomes ::

    bound = starts[row]
    bound_1 = starts[row + 1]
    for k in range(bound + lane, bound_1, 32):

Where all threads share them, they are variables of the block, and the loop can be run for all
threads at once (:mod:`targets.cpu.passes.strides`).
"""

from __future__ import annotations

import ast

from kerneldsl.analysis.expressions import loaded_names
from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.fresh_names import FreshNames
from kerneldsl.frontend.syntax import assign, load
from kerneldsl.frontend.trees import Transformer
from kerneldsl.frontend.unit import FunctionUnit
from targets.cpu.passes.counted_loops import is_range
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["name_loaded_bounds"]


def name_loaded_bounds(
    tree: ast.FunctionDef,
    unit: FunctionUnit,
    pure: Rematerializable,
    names: FreshNames,
    thread_names: tuple[str, ...],
) -> None:
    """Rewrite the loops of a kernel in place; ids in the tree are replaced."""
    _Naming(unit, pure, names, frozenset(thread_names)).visit(tree)


class _Naming(Transformer):
    def __init__(
        self,
        unit: FunctionUnit,
        pure: Rematerializable,
        names: FreshNames,
        thread_names: frozenset[str],
    ) -> None:
        self.unit = unit
        self.pure = pure
        self.names = names
        self.thread_names = thread_names

    def visit_For(self, node: ast.For) -> ast.stmt | list[ast.stmt]:
        self.generic_visit(node)
        if not is_range(node.iter, self.unit):
            return node
        assert isinstance(node.iter, ast.Call)
        if len(node.iter.args) != 3 or not self._varies(node.iter.args[0]):
            return node
        before: list[ast.stmt] = []
        node.iter.args = [self._named(argument, before) for argument in node.iter.args]
        return [*(place_at(each, node) for each in before), node]

    def _varies(self, node: ast.expr) -> bool:
        return bool(loaded_names(self.pure.expanded(node)) & self.thread_names)

    def _named(self, node: ast.expr, before: list[ast.stmt]) -> ast.expr:
        """Return a bound with names for the elements in its sums that threads may share."""
        match node:
            case ast.BinOp():
                node.left = self._named(node.left, before)
                node.right = self._named(node.right, before)
            case ast.Subscript() if not (self.pure.is_pure(node) or self._varies(node)):
                name = self.names.make("bound")
                before.append(assign(name, node))
                return place_at(load(name), node)
        return node
