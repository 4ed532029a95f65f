"""Parts that a kernel cuts out of dynamic shared memory: ``kd.shared.array(0, dtype)[:n]``.

A slice ends where its array does, so that a part of too few bytes looks like one of enough. Where a
block cuts one out, once for all of its threads, the ends are compared with what the launch gives.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from kerneldsl.analysis.hoisting import place_at
from kerneldsl.frontend.syntax import call, load
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit

__all__ = ["BOUND", "check_dynamic_slices", "slices_at"]

#: The function that compares an end.
BOUND = "kd_dynamic_bound"


def check_dynamic_slices(
    statements: list[ast.stmt], arrays: Collection[str], loops: Collection[str]
) -> None:
    """Compare the ends of slices of some arrays, in place, but in loops over threads.

    `loops` are the names of the counters of such loops.
    """
    checking = _Checking(arrays, loops)
    for statement in statements:
        checking.visit(statement)


class _Checking(ast.NodeVisitor):
    def __init__(self, arrays: Collection[str], loops: Collection[str]) -> None:
        self._arrays, self._loops = arrays, loops

    def visit_For(self, node: ast.For) -> None:
        if not (isinstance(node.target, ast.Name) and node.target.id in self._loops):
            self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self.generic_visit(node)
        match node:
            case ast.Subscript(value=ast.Name(id=array), slice=ast.Slice() as part):
                if array in self._arrays:
                    part.lower, part.upper = (
                        end and _compared(end, array, node) for end in (part.lower, part.upper)
                    )


def _compared(end: ast.expr, array: str, node: ast.Subscript) -> ast.expr:
    if isinstance(end, ast.Constant) and end.value is None:
        return end
    return place_at(call(BOUND, end, load(array), ast.Constant(node.lineno)), node)


def slices_at(unit: FunctionUnit, line: int) -> Iterator[tuple[FunctionUnit, ast.Subscript]]:
    """Yield the slices in a line of a kernel or a function that it calls."""
    for reached in unit.reachable():
        for node in walk_here(reached.tree):
            if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                yield from [(reached, node)] if node.lineno == line else []
