"""The memory that an array is in, and metadata for LLVM."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value

__all__ = ["LocalScopes", "is_of_block"]

#: What gives a part of an array, or looks at all of it in another way.
_VIEWS = frozenset({"array.part", "array.view", "array.transpose"})


def root_of(array: Value) -> Value:
    """Return the array that an array is a part or a view of."""
    made = array.owner
    while isinstance(made, Operation) and made.name in _VIEWS:
        array = made.operands[0]
        made = array.owner
    return array


def is_of_block(array: Value) -> bool:
    """Return whether an array is known to be shared or local memory, which one worker uses."""
    made = root_of(array).owner
    return isinstance(made, Operation) and made.name in ("shared.array", "local.array")


class LocalScopes:
    """Metadata by which LLVM knows that local arrays and parameters of a kernel are distinct.

    LLVM finds that out by itself unless a local array has many uses.
    """

    def __init__(self, module: ir.Module, parameters: Collection[Value]) -> None:
        self._parameters = parameters
        domain = module.add_metadata(["kerneldsl.memory"])
        self._local = module.add_metadata([module.add_metadata(["kerneldsl.local", domain])])

    def mark(self, access: Any, array: Value) -> None:
        """Mark a load or store of an element of an array."""
        array = root_of(array)
        if array in self._parameters:
            access.set_metadata("noalias", self._local)
        elif isinstance(array.owner, Operation) and array.owner.name == "local.array":
            access.set_metadata("alias.scope", self._local)
