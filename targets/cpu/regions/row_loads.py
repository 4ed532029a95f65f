"""Elements that all iterations of a row load are loaded once, before the row.

``distance[i, k] + distance[k, j]`` in a row over ``j`` loads its first element for each vector:
LLVM cannot see that no iteration writes to it. Between two barriers threads may take turns after
any instruction, so all of them may load it before the first one writes. This is done to what each
iteration evaluates in any case, before anything that it writes.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value
from targets.cpu.regions.index_arithmetic import IndexArithmetic
from targets.cpu.regions.order import loop_takes_any_order
from targets.cpu.regions.row_regions import defined_in, if_then

__all__ = ["loaded_once"]


def loaded_once(row: Operation) -> list[Operation]:
    """Return a row in which shared elements are loaded before it, if it has iterations."""
    (region,) = row.regions
    if not loop_takes_any_order(region):
        return [row]
    inside = defined_in(row)
    loads: list[Operation] = []
    known: dict[Any, Operation] = {}
    same: dict[Value, Value] = {}
    for operation in region.operations:
        if operation.effects() & ~Effect.READ:
            break
        if not _is_shared(operation, inside):
            continue
        found = known.setdefault(tuple(operation.operands), operation)
        if found is operation:
            loads.append(operation)
        else:
            same[operation.result] = found.result
    if not loads:
        return [row]
    left = {*loads, *(value.owner for value in same)}
    region.operations = [each for each in region.operations if each not in left]
    for each in region.walk():
        each.operands = [same.get(value, value) for value in each.operands]
    out: list[Operation] = []
    test = IndexArithmetic(out).numba(operator.lt, *row.operands)
    return [*out, if_then(test, [*loads, row])]


def _is_shared(operation: Operation, inside: set[Value]) -> bool:
    """Return whether an operation loads a number at a place that all iterations share."""
    return (
        operation.name == "array.load"
        and inside.isdisjoint(operation.operands)
        and isinstance(operation.result.type, types.Number | types.Boolean)
    )
