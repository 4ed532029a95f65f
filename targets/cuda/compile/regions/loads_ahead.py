"""Find loops with loads that may come before the stores of earlier iterations."""

from __future__ import annotations

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value

__all__ = ["loads_ahead"]


def loads_ahead(loop: Operation, parameters: frozenset[Value]) -> list[Operation]:
    """Return the loads of a loop that fills shared memory from arrays; of other loops nothing.

    It has no variables and no branches, and stores to shared arrays alone. These share no memory
    with arrays of the kernel, so a load may be moved before any store.
    """
    body = loop.regions[-1]
    if loop.results or body.is_left:
        return []
    loads = []
    for each in body.operations[:-1]:
        if each.regions:
            return []
        if each.name == "array.load" and each.operands[0] in parameters:
            if not isinstance(each.result.type, types.Integer | types.Float):
                return []
            loads.append(each)
        elif each.effect != Effect.NONE and not (
            each.name == "array.store" and _is_shared(each.operands[0])
        ):
            return []
    return loads


def _is_shared(array: Value) -> bool:
    return isinstance(array.owner, Operation) and array.owner.name == "shared.array"
