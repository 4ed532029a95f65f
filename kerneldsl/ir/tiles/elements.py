"""Elements of tile expressions, and operations that give a tile of them, for every layout.

A target says which elements its code has, in which order, and in which memory they are. A block on
the CPU has all of them, one after the other. A thread on a GPU has its own.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from llvmlite import ir

from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "ElementCode",
    "Slot",
    "TileMemory",
    "Variable",
    "add_product",
    "write_place",
    "write_region",
    "write_start",
    "write_take",
]

_I64 = ir.IntType(64)
#: Beyond this no array has an element, and so far from it sums and differences do not wrap.
_FARTHEST = 1 << 62


@dataclass(frozen=True)
class Slot:
    """An element, in code that is repeated for each of them."""

    #: Number of the element in the tile, in C order.
    index: ir.Value
    #: Number of the element among those that the code holds.
    slot: ir.Value
    #: Position of the element in a thread's group of consecutive elements.
    place: ir.Value | None = None
    #: Indices along the axes, if the loops of the code have them.
    indices: Sequence[ir.Value] = ()


class Variable:
    """A number that code changes, which LLVM keeps in a register."""

    def __init__(self, builder: ir.IRBuilder, first: ir.Value) -> None:
        self._builder = builder
        with builder.goto_entry_block():
            self._memory = builder.alloca(first.type)
        self.set(first)

    def get(self) -> ir.Value:
        return self._builder.load(self._memory)

    def set(self, value: ir.Value) -> None:
        self._builder.store(value, self._memory)


class TileMemory(ABC):
    """The memory of a tile."""

    @property
    def is_shared(self) -> bool:
        """True if it has the elements of several threads."""
        return False

    @abstractmethod
    def own(self, slot: Slot) -> ir.Value:
        """Return an element that the code has."""

    @abstractmethod
    def put(self, slot: Slot, value: ir.Value) -> None:
        """Set an element that the code has."""

    @abstractmethod
    def get(self, index: ir.Value) -> ir.Value:
        """Return any element, by its number in the tile."""


class ElementCode(ABC):
    """Writes the elements of one operation on tiles.

    - `emitter`: writes the regions.
    - `shape`: shape of the tile.
    """

    def __init__(self, emitter: Emitter, operation: Operation, shape: tuple[int, ...]) -> None:
        self.emitter: Any = emitter
        self.builder: ir.IRBuilder = emitter.builder
        self.operation = operation
        self.shape = shape

    # -- what a target has --------------------------------------------------------------------

    @abstractmethod
    def slots(self) -> AbstractContextManager[Slot]:
        """Repeat code for each element that the code has."""

    @abstractmethod
    def tile(self, value: Value) -> TileMemory:
        """Return the memory of a tile that the operation reads."""

    @abstractmethod
    def tile_shape(self, number: int) -> tuple[int, ...]:
        """Return the shape of one of the tiles of the expression."""

    def own_slot(self, memory: TileMemory, shape: tuple[int, ...], slot: Slot) -> Slot | None:
        """Return the element of a tile that the code has for an element, if it has it."""
        return slot if shape == self.shape else None

    # -- elements -----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def tiles(self) -> list[Value]:
        """The tiles that the expression reads."""
        return self.operation.operands[self.operation.attributes["first"] :]

    def indices(self, slot: Slot) -> Sequence[ir.Value]:
        """Return the index of an element along each axis."""
        if slot.indices:
            return slot.indices
        if len(self.shape) == 1:
            return [slot.index]
        columns = _I64(self.shape[1])
        return [self.builder.udiv(slot.index, columns), self.builder.urem(slot.index, columns)]

    def element(self, slot: Slot) -> ir.Value:
        """Write the region of the operation for an element."""
        attributes = self.operation.attributes
        given = []
        for number, (tile, is_transposed) in enumerate(
            zip(self.tiles, attributes["transposed"], strict=True)
        ):
            memory, shape = self.tile(tile), self.tile_shape(number)
            own = None if is_transposed or memory.is_shared else self.own_slot(memory, shape, slot)
            if own is None:
                indices = self.indices(slot)[:: -1 if is_transposed else 1]
                given.append(memory.get(self._number(shape, indices)))
            else:
                given.append(memory.own(own))
        if attributes["axes"]:
            given += [self.indices(slot)[axis] for axis in attributes["axes"]]
        return write_region(self.emitter, self.operation.regions[0], *given)

    @contextmanager
    def elements(self) -> Iterator[tuple[Slot, ir.Value]]:
        """Repeat code for each element that the code has, with its value."""
        with self.slots() as slot:
            yield slot, self.element(slot)

    def _number(self, shape: Sequence[int], indices: Sequence[ir.Value]) -> ir.Value:
        """Return the number of the element of a tile, which is repeated where its extent is 1."""
        number: ir.Value | None = None
        for extent, index in zip(shape, indices[-len(shape) :], strict=True):
            if extent > 1 and number is not None:
                index = self.builder.add(self.builder.mul(number, _I64(extent)), index)
            number = index if extent > 1 else number
        return _I64(0) if number is None else number

    def only_tile(self) -> Value | None:
        """Return the tile that the expression is, if it is one of its shape."""
        region, attributes = self.operation.regions[0], self.operation.attributes
        is_tile = len(region.operations) == 1 and region.yielded == region.arguments
        if is_tile and attributes["transposed"] == (False,) and self.tile_shape(0) == self.shape:
            return self.tiles[0]
        return None


def write_region(emitter: Any, region: Region, *arguments: ir.Value) -> ir.Value:
    """Write a region for some arguments; return what it yields."""
    emitter.values.update(zip(region.arguments, arguments, strict=True))
    (found,) = emitter.region(region)
    value: ir.Value = emitter.plain(found, region.yielded[0].type)
    return value


def write_place(emitter: Any, value: Value) -> ir.Value:
    """Write the index of a tile's first element as 64 bits."""
    found: ir.Value = emitter.get(value)
    if isinstance(found, ir.Constant) and found.type == _I64:
        return found
    return _bounded(emitter.builder, value.type, found)


def write_start(emitter: Any, operation: Operation) -> None:
    """Write the index of a tile's first element for a separate operation."""
    emitter.set(operation, write_place(emitter, operation.operands[0]))


def _bounded(builder: ir.IRBuilder, kind: Any, value: ir.Value) -> ir.Value:
    """Return an integer of Numba's type `kind` as 64 bits with a sign, at most 2⁶² from 0."""
    if kind.bitwidth < 64:
        return (builder.sext if kind.signed else builder.zext)(value, _I64)
    compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
    far = _I64(_FARTHEST)
    place = builder.select(compare("<", value, far), value, far)
    if kind.signed:
        near = _I64(-_FARTHEST)
        place = builder.select(compare(">", place, near), place, near)
    return place


def write_take(code: ElementCode, source: TileMemory, extent: int) -> Callable[[Slot], ir.Value]:
    """Return what writes an element of a tile with rows of an extent, by its place in its row."""
    builder, kind = code.builder, code.operation.regions[0].yielded[0].type

    def taken(slot: Slot) -> ir.Value:
        place = _bounded(builder, kind, code.element(slot))
        zero, last = _I64(0), _I64(extent - 1)
        place = builder.select(builder.icmp_signed("<", place, zero), zero, place)
        place = builder.select(builder.icmp_signed("<", place, last), place, last)
        if len(code.shape) > 1:
            row = builder.mul(code.indices(slot)[0], _I64(extent))
            place = builder.add(row, place)
        return source.get(place)

    return taken


def add_product(builder: ir.IRBuilder, one: ir.Value, two: ir.Value, total: ir.Value) -> ir.Value:
    """Add a product to a sum of the same type: with one rounding, or exactly."""
    if isinstance(total.type, ir.IntType):
        return builder.add(total, builder.mul(one, two))
    return builder.fma(one, two, total)
