"""Arrays of a block, the memory that an array is in, and metadata of it for LLVM."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from llvmlite import ir

from kerneldsl.errors import SourceLocation
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["LocalScopes", "StaticArray", "is_dynamic", "is_of_block", "may_share", "root_of"]


@dataclass(frozen=True)
class StaticArray:
    """A shared or local array of constant shape; ``(0,)`` stands for dynamic shared memory."""

    #: Shape and dtype.
    use: IntrinsicUse
    #: The place of its declaration.
    where: SourceLocation
    #: Number of copies in a block: one for each thread, if the array outlives a barrier.
    copies: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of all copies."""
        shape: tuple[int, ...] = self.use.static["shape"]
        itemsize = ELEMENT_TYPES[self.use.static["dtype"]].nbytes
        return math.prod(shape) * itemsize * self.copies

    def __str__(self) -> str:
        static = self.use.static
        return f"kd.{self.use.intrinsic.name}({static['shape']}, {static['dtype']})"


#: Operations that return a part or another view of an array.
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


def is_dynamic(array: Value) -> bool:
    """Return whether an array is the shared memory that a launch sizes: all such are one."""
    made = array.owner
    is_shared = isinstance(made, Operation) and made.name == "shared.array"
    return is_shared and tuple(made.attributes["shape"]) == (0,)  # type: ignore[union-attr]


def may_share(one: Value, two: Value, parameters: Collection[Value]) -> bool:
    """Return whether two arrays of a kernel with some parameters may share memory."""
    one, two = root_of(one), root_of(two)
    of_block = [is_of_block(each) for each in (one, two)]
    if one is two or not any(of_block):
        return True
    if all(of_block):
        return all(map(is_dynamic, (one, two)))
    other = two if of_block[0] else one
    while isinstance(other.owner, Operation) and other.owner.name == "tuple.member":
        (other,) = other.owner.operands
    return other not in parameters


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
