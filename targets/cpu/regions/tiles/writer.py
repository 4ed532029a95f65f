"""Write loops over the elements of tiles, which are arrays of the block.

The region of an operation says how to compute one element. It is the body of a loop over all of
them, which LLVM vectorizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL
from kerneldsl.lowering.tile_plan import Layout
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loops import CountedLoop

__all__ = ["Elements", "TileCode", "Variable"]

_I64 = ir.IntType(64)


@dataclass(frozen=True)
class Elements:
    """Elements of one type in memory of the block."""

    emitter: CpuEmitter
    #: Address of the first one.
    data: ir.Value
    #: Numba's type.
    kind: Any

    def place(self, index: ir.Value) -> ir.Value:
        """Return the address of an element."""
        return self.emitter.builder.gep(self.data, [index], inbounds=True)

    def get(self, index: ir.Value) -> ir.Value:
        """Return an element."""
        emitter = self.emitter
        model = emitter.context.data_model_manager[self.kind]
        return model.from_data(emitter.builder, emitter.read(self.place(index)))

    def set(self, index: ir.Value, value: ir.Value) -> None:
        """Set an element."""
        emitter = self.emitter
        model = emitter.context.data_model_manager[self.kind]
        emitter.write(model.as_data(emitter.builder, value), self.place(index))


class Variable:
    """A number that loops change, which LLVM keeps in a register."""

    def __init__(self, emitter: CpuEmitter, first: ir.Value) -> None:
        self._builder = emitter.builder
        with self._builder.goto_entry_block():
            self._memory = self._builder.alloca(first.type)
        self.set(first)

    def get(self) -> ir.Value:
        return self._builder.load(self._memory)

    def set(self, value: ir.Value) -> None:
        self._builder.store(value, self._memory)


class TileCode:
    """Writes the loops of one operation on tiles.

    Parameters
    ----------
    emitter : CpuEmitter
        Writes the regions.
    operation : Operation
        The operation. Its tiles are in memory.
    """

    def __init__(self, emitter: CpuEmitter, operation: Operation) -> None:
        self.emitter = emitter
        self.builder = emitter.builder
        self.operation = operation
        self.shape: tuple[int, ...] = operation.attributes.get("shape", ())
        self._buffers = 0
        #: Whether elements may be computed in any order, and several at a time.
        self._is_parallel = not any(
            inner.effect & Effect.WRITE for region in operation.regions for inner in region.walk()
        )

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def layout(self) -> Layout:
        """The threads of a block to which the elements belong."""
        return Layout(self.count, self.emitter.threads_count)

    # -- memory -----------------------------------------------------------------------------------

    def elements(self, memory: Value) -> Elements:
        """Return the elements of a tile's memory."""
        return Elements(self.emitter, self.emitter.get(memory).data, memory.type.dtype)

    def buffer(self, kind: Any, count: int) -> Elements:
        """Return memory that the operation needs, for elements of a type."""
        stored = self.emitter.context.get_data_type(kind)
        data = self.emitter.reserve_again(stored, count, self._buffers)
        self._buffers += 1
        return Elements(self.emitter, data, kind)

    def variable(self, first: ir.Value) -> Variable:
        """Declare a number."""
        return Variable(self.emitter, first)

    # -- loops ------------------------------------------------------------------------------------

    def loop(self, low: ir.Value | int, high: ir.Value | int) -> CountedLoop:
        """Return a loop over elements, which LLVM makes vectors of."""
        wishes = (NOT_UNROLLED, PARALLEL) if self._is_parallel else (NOT_UNROLLED,)
        return CountedLoop(self.builder, _number(low), _number(high), *wishes)

    def repeat(self, low: ir.Value | int, high: ir.Value | int, step: int = 1) -> CountedLoop:
        """Return a loop of iterations that are one after the other."""
        return CountedLoop(self.builder, _number(low), _number(high), step=step)

    def each(self, write: Callable[[ir.Value, Sequence[ir.Value]], None]) -> None:
        """Repeat code for each element: for its number, and its index along each axis.

        There are no indices if the operation needs only the number.
        """
        builder = self.builder
        if self.is_flat or len(self.shape) == 1:
            with self.loop(0, self.count) as index:
                write(index, [] if self.is_flat else [index])
            return
        rows, columns = self.shape
        with self.repeat(0, rows) as row, self.loop(0, columns) as column:
            index = builder.add(builder.mul(row, _I64(columns)), column)
            write(index, [row, column])

    # -- elements ---------------------------------------------------------------------------------

    @property
    def _tiles(self) -> list[Value]:
        return self.operation.operands[self.operation.attributes["first"] :]

    @property
    def is_flat(self) -> bool:
        """True if an element depends on elements of the same number, or on the only ones."""
        attributes = self.operation.attributes
        return not attributes["axes"] and all(
            math.prod(shape) == 1 or (shape == self.shape and not is_transposed)
            for shape, is_transposed in zip(
                attributes["shapes"], attributes["transposed"], strict=True
            )
        )

    def only_tile(self) -> Value | None:
        """Return the tile of the same elements as the operation computes, if it is one."""
        (region, *_), tiles = self.operation.regions, self._tiles
        is_tile = len(region.operations) == 1 and region.yielded == region.arguments
        if is_tile and len(tiles) == 1 and self.is_flat:
            (shape,) = self.operation.attributes["shapes"]
            return tiles[0] if shape == self.shape else None
        return None

    def element(self, index: ir.Value, places: Sequence[ir.Value]) -> ir.Value:
        """Write the region of the operation for one element."""
        attributes = self.operation.attributes
        places = places or [index]
        given = []
        for tile, shape, is_transposed in zip(
            self._tiles, attributes["shapes"], attributes["transposed"], strict=True
        ):
            number = index
            if is_transposed or shape != self.shape:
                number = self._number(shape, places[::-1] if is_transposed else places)
            given.append(self.elements(tile).get(number))
        given += [places[axis] for axis in attributes["axes"]]
        return self.region(self.operation.regions[0], *given)

    def _number(self, shape: Sequence[int], places: Sequence[ir.Value]) -> ir.Value:
        """Return the number of the element of a tile that is repeated where its extent is 1."""
        number: ir.Value | None = None
        if math.prod(shape) == 1:
            return _I64(0)
        for extent, place in zip(shape, places[-len(shape) :], strict=True):
            if extent > 1:
                if number is not None:
                    place = self.builder.add(self.builder.mul(number, _I64(extent)), place)
                number = place
        return _I64(0) if number is None else number

    def region(self, region: Region, *arguments: ir.Value) -> ir.Value:
        """Write a region for some arguments; return what it yields."""
        self.emitter.values.update(zip(region.arguments, arguments, strict=True))
        (found,) = self.emitter.region(region)
        return self.emitter.plain(found, region.yielded[0].type)


def _number(bound: ir.Value | int) -> ir.Value:
    return _I64(bound) if isinstance(bound, int) else bound
