"""The memory that an array is in."""

from __future__ import annotations

from kerneldsl.ir.operations import Operation, Value

__all__ = ["is_of_block"]

#: What gives a part of an array, or looks at all of it in another way.
_VIEWS = frozenset({"array.part", "array.view", "array.transpose"})


def is_of_block(array: Value) -> bool:
    """Return whether an array is known to be shared or local memory, which one worker uses."""
    made = array.owner
    while isinstance(made, Operation) and made.name in _VIEWS:
        made = made.operands[0].owner
    return isinstance(made, Operation) and made.name in ("shared.array", "local.array")
