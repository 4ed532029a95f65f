"""Storage of a block's arrays and private values: on the worker's stack, or in scratch.

Also the memory that an array is in, and metadata of it for LLVM.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from llvmlite import ir

from kerneldsl.errors import ResourceLimitError, SourceLocation
from kerneldsl.frontend.unit import FunctionUnit, IntrinsicUse
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import format_bytes
from targets.cpu.runtime.native_tables import ALIGNMENT

__all__ = [
    "SCRATCH_LIMIT_BYTES",
    "STACK_BYTES",
    "LocalScopes",
    "StaticArray",
    "Storage",
    "is_dynamic",
    "is_of_block",
    "may_share",
    "root_of",
]

#: Bytes of a block's storage that are taken from the worker's stack; what is beyond goes to
#: scratch memory. Workers of a thread pool may have as little as half a megabyte of stack.
STACK_BYTES = 64 * 1024
#: Most bytes of scratch memory; every thread of the pool allocates as many.
SCRATCH_LIMIT_BYTES = 2**30


@dataclass(frozen=True)
class StaticArray:
    """A shared or local array of constant shape; ``(0,)`` stands for dynamic shared memory."""

    #: Shape and dtype.
    use: IntrinsicUse
    #: The place of its declaration.
    where: SourceLocation
    #: How many of them a block has: one for each thread, for what outlives a barrier.
    copies: int = 1

    @property
    def nbytes(self) -> int:
        """Bytes of all its copies."""
        shape: tuple[int, ...] = self.use.static["shape"]
        itemsize = ELEMENT_TYPES[self.use.static["dtype"]].nbytes
        return math.prod(shape) * itemsize * self.copies

    def __str__(self) -> str:
        static = self.use.static
        return f"kd.{self.use.intrinsic.name}({static['shape']}, {static['dtype']})"


class Storage:
    """Places storage as it is requested."""

    def __init__(self, *, most_stack_bytes: int = STACK_BYTES) -> None:
        #: Taken from the stack.
        self.stack_bytes = 0
        self._most_stack_bytes = most_stack_bytes
        #: Taken from scratch memory; what a launch adds in dynamic shared memory follows.
        self.scratch_bytes = 0
        self._largest: StaticArray | None = None

    def place(self, nbytes: int) -> int | None:
        """Reserve bytes; return their offset in scratch memory, or ``None`` for the stack."""
        rounded = -(-nbytes // ALIGNMENT) * ALIGNMENT
        if self.stack_bytes + rounded <= self._most_stack_bytes:
            self.stack_bytes += rounded
            return None
        offset = self.scratch_bytes
        self.scratch_bytes += rounded
        return offset

    def place_array(self, array: StaticArray) -> int | None:
        """Reserve the bytes of an array, as :meth:`place` does."""
        if self._largest is None or array.nbytes > self._largest.nbytes:
            self._largest = array
        return self.place(array.nbytes)

    def check(self, unit: FunctionUnit) -> None:
        """Refuse a kernel with more storage than a thread of the pool should allocate.

        Raises `ResourceLimitError` naming its largest array.
        """
        if self.scratch_bytes <= SCRATCH_LIMIT_BYTES:
            return
        what = f"{unit.qualname} needs {format_bytes(self.scratch_bytes)} of memory for a block"
        array = self._largest
        if array is not None:
            what += f", {format_bytes(array.nbytes)} of them for {array}"
            if array.copies > 1:
                what += f", which each of {array.copies} threads keeps across a barrier"
        raise ResourceLimitError(
            what,
            where=array.where if array is not None else unit.locate(unit.tree),
            value=self.scratch_bytes,
            limit=f"A block on the CPU can have {format_bytes(SCRATCH_LIMIT_BYTES)} of it",
            remedy="Use smaller arrays or smaller blocks, or pass an array as an argument",
        )


# -- the memory that an array is in, and metadata for LLVM ----------------------------------------


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
