"""Find the device functions with loops worth running for many threads at once.

What runs a loop for a row or a strip of threads (:mod:`~targets.cpu.passes.interchange`,
:mod:`~targets.cpu.passes.masked_strips`) sees the kernel alone. A loop in a device function becomes
the kernel's when calls are replaced by the function's body. Not every function can be inlined: a
place that is only sometimes evaluated has no room for statements, and local arrays belong to their
function.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from kerneldsl.analysis.expressions import sometimes_evaluated
from kerneldsl.frontend.trees import walk_here
from kerneldsl.frontend.unit import FunctionUnit
from kerneldsl.language.intrinsics.intrinsic import Effect
from targets.cpu.passes.counted_loops import is_range

__all__ = ["functions_with_arrays", "functions_with_loops"]

#: Nodes that all calls together may add to a kernel, whose statements may be written several times.
_MOST_NODES = 1500
#: Rounds of a loop up to which LLVM unrolls it, so that the loop over threads is vectorized.
_UNROLLED_ROUNDS = 16


def functions_with_loops(unit: FunctionUnit) -> frozenset[FunctionUnit]:
    """Return the device functions with loops that can be inlined, and those that call them.

    What a block meets together is inlined already. None is returned if they would make the
    kernel much longer.
    """
    callees = _inlinable(unit)
    found: set[FunctionUnit] = set()
    more = {each for each in callees if _has_loop(each)}
    while more:
        found |= more
        more = {
            each
            for each in callees
            if each not in found and found.intersection(each.callees.values())
        }
    return _if_short(unit, found)


def functions_with_arrays(unit: FunctionUnit, arrays: Collection[str]) -> frozenset[FunctionUnit]:
    """Return the device functions that can be inlined and are given one of these variables.

    None is returned if they would make the kernel much longer.
    """
    callees = _inlinable(unit)
    given = {
        unit.callee_of(node)
        for node in walk_here(unit.tree)
        if isinstance(node, ast.Call)
        and any(isinstance(each, ast.Name) and each.id in arrays for each in node.args)
    }
    return _if_short(unit, {each for each in callees if each in given})


def _inlinable(unit: FunctionUnit) -> list[FunctionUnit]:
    """Return the functions that a unit calls, all of whose calls their bodies can replace."""
    callees = [each for each in unit.reachable() if each is not unit]
    kept = {each for each in callees if not _can_be_inlined(each)}
    for caller in (unit, *callees):
        kept |= set(_called_in_expressions(caller))
    return [each for each in callees if each not in kept]


def _if_short(unit: FunctionUnit, found: Collection[FunctionUnit]) -> frozenset[FunctionUnit]:
    added = sum(_node_count(each) for caller in (unit, *found) for each in _called(caller, found))
    return frozenset(found) if added <= _MOST_NODES else frozenset()


def _can_be_inlined(unit: FunctionUnit) -> bool:
    allocates = Effect.ALLOCATE_LOCAL | Effect.ALLOCATE_SHARED
    return not (
        unit.is_plain_numba or any(use.intrinsic.effect & allocates for use in unit.uses.values())
    )


def _has_loop(unit: FunctionUnit) -> bool:
    """Return whether a function has a loop that LLVM does not unroll."""
    return any(
        isinstance(node, ast.While) or (isinstance(node, ast.For) and not _is_short(node, unit))
        for node in walk_here(unit.tree)
    )


def _is_short(node: ast.For, unit: FunctionUnit) -> bool:
    if not is_range(node.iter, unit):
        return False
    assert isinstance(node.iter, ast.Call)
    bounds: list[int] = []
    for argument in node.iter.args:
        value: object = argument.value if isinstance(argument, ast.Constant) else None
        if isinstance(argument, ast.Name) and argument.id in unit.constants:
            value = unit.constants[argument.id].value
        if not isinstance(value, int):
            return False
        bounds.append(value)
    return bounds[2:] != [0] and len(range(*bounds)) <= _UNROLLED_ROUNDS


def _called(caller: FunctionUnit, among: Collection[FunctionUnit]) -> Iterator[FunctionUnit]:
    """Return the function of each call of one of them."""
    for node in walk_here(caller.tree):
        callee = caller.callee_of(node)
        if callee is not None and callee in among:
            yield callee


def _called_in_expressions(caller: FunctionUnit) -> Iterator[FunctionUnit]:
    """Return functions with calls that cannot all be moved into statements."""
    called = set()
    for node in walk_here(caller.tree):
        if isinstance(node, ast.Call):
            called.add(node.func)
        for part in sometimes_evaluated(node):
            for inner in walk_here(part):
                callee = caller.callee_of(inner)
                if callee is not None:
                    yield callee
    for node in walk_here(caller.tree):
        if isinstance(node, ast.Name) and node.id in caller.callees and node not in called:
            yield caller.callees[node.id]  # it is given to what will call it


def _node_count(unit: FunctionUnit) -> int:
    return sum(1 for _ in ast.walk(unit.tree))
