"""Mark the loops that arrays of a thread's own are indexed by: registers have no index.

Unless such a loop is unrolled in full, the array lies in local memory, which is the device's. LLVM
unrolls short loops by itself; of a longer one it has to be told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from kerneldsl.analysis.trips import constant_trips, integer_value, is_range
from kerneldsl.contract import Report, ignore_remark
from kerneldsl.frontend.syntax import load
from kerneldsl.frontend.trees import Transformer
from kerneldsl.frontend.unit import FunctionUnit
from targets.cuda.intrinsics.unroll import UNROLL, UNROLL_NAME

__all__ = ["unroll_loops"]

#: Elements of an array that may be in registers, of which a thread has 255.
MAX_TURNS = 64
_LEAVES = (ast.Break, ast.Continue, ast.Return)
_LOOPS = (ast.For, ast.While)


def unroll_loops(
    unit: FunctionUnit, tree: ast.FunctionDef, report: Report = ignore_remark
) -> tuple[ast.FunctionDef, dict[str, Any]]:
    """Return the tree with marks in such loops, and what they call.

    They have a number of turns that is known, hold no loop themselves, and are left at their end
    alone. The tree is changed.
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
    in_memory = arrays & set(_indexed_by_data(tree))
    report(
        "local array", "kept in memory: an index of it is loaded", len(in_memory), is_missed=True
    )
    arrays -= in_memory
    if not arrays:
        return tree, {}
    return _Marker(unit, arrays, report).visit(tree), {UNROLL_NAME: UNROLL}


def _indexed_by_data(tree: ast.AST) -> Iterator[str]:
    """Yield the arrays of which some index is loaded: these lie in memory, unrolled or not."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(ast.Name(array), index) if any(
                isinstance(each, ast.Subscript) for each in ast.walk(index)
            ):
                yield array


class _Marker(Transformer):
    def __init__(self, unit: FunctionUnit, arrays: set[str], report: Report) -> None:
        self._unit = unit
        self._arrays = arrays
        self._report = report

    def visit_For(self, node: ast.For) -> ast.stmt:
        self.generic_visit(node)
        match node:
            case ast.For(ast.Name(variable), ast.Call() as turns, body, []) if self._are_few(
                turns
            ) and self._is_indexed(body, variable):
                mark = ast.Expr(ast.Call(load(UNROLL_NAME), [], []))
                ast.fix_missing_locations(ast.copy_location(mark, body[-1]))
                body.append(mark)
                where = [self._unit.locate(node)]
                self._report("loop", "unrolled in full, for a local array", where=where)
        return node

    def _are_few(self, turns: ast.Call) -> bool:
        if not is_range(turns, self._unit.namespace):
            return False
        trips = constant_trips(turns, lambda bound: integer_value(bound, self._unit.constants, {}))
        return trips is not None and trips <= MAX_TURNS

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
