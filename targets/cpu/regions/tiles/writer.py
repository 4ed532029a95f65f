"""Write loops over the elements of tiles, which are arrays of the block.

The region of an operation says how to compute one element. It is the body of a loop over all of
them, which LLVM vectorizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.tiles.elements import ElementCode, Slot, TileMemory, Variable
from kerneldsl.ir.tiles.layout import Layout
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter

__all__ = ["Elements", "TileCode"]

_I64 = ir.IntType(64)


@dataclass(frozen=True)
class Elements(TileMemory):
    """Elements of one type in memory of the block."""

    emitter: CpuEmitter
    #: Address of the first one.
    data: ir.Value
    #: Numba's type.
    kind: Any

    def place(self, index: ir.Value) -> ir.Value:
        return self.emitter.builder.gep(self.data, [index], inbounds=True)

    def get(self, index: ir.Value) -> ir.Value:
        emitter = self.emitter
        model = emitter.context.data_model_manager[self.kind]
        return model.from_data(emitter.builder, emitter.read(self.place(index)))

    def set(self, index: ir.Value, value: ir.Value) -> None:
        emitter = self.emitter
        model = emitter.context.data_model_manager[self.kind]
        emitter.write(model.as_data(emitter.builder, value), self.place(index))

    def own(self, slot: Slot) -> ir.Value:
        return self.get(slot.index)

    def put(self, slot: Slot, value: ir.Value) -> None:
        self.set(slot.index, value)


class TileCode(ElementCode):
    """Writes the loops of one operation on tiles.

    - `emitter`: writes the regions.
    - `operation`: the operation. Its tiles are in memory.
    """

    def __init__(self, emitter: CpuEmitter, operation: Operation) -> None:
        super().__init__(emitter, operation, operation.attributes.get("shape", ()))
        self._buffers = 0
        #: Whether elements may be computed in any order, and several at a time.
        self._is_parallel = not any(
            inner.effect & Effect.WRITE for region in operation.regions for inner in region.walk()
        )

    @property
    def layout(self) -> Layout:
        """The threads of a block to which the elements belong."""
        return Layout(self.count, self.emitter.threads_count)

    # -- memory -----------------------------------------------------------------------------------

    def tile(self, value: Value) -> Elements:
        return Elements(self.emitter, self.emitter.get(value).data, value.type.dtype)

    def tile_shape(self, number: int) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.operation.attributes["shapes"][number]
        return shape

    def buffer(self, kind: Any, count: int) -> Elements:
        """Return memory that the operation needs, for elements of a type."""
        stored = self.emitter.context.get_data_type(kind)
        data = self.emitter.reserve_again(stored, count, self._buffers)
        self._buffers += 1
        return Elements(self.emitter, data, kind)

    def variable(self, first: ir.Value) -> Variable:
        """Declare a number."""
        return Variable(self.builder, first)

    # -- loops ------------------------------------------------------------------------------------

    def loop(self, low: ir.Value | int, high: ir.Value | int) -> CountedLoop:
        """Return a loop over elements, which LLVM makes vectors of."""
        wishes = (NOT_UNROLLED, PARALLEL) if self._is_parallel else (NOT_UNROLLED,)
        return CountedLoop(self.builder, _number(low), _number(high), *wishes)

    def repeat(self, low: ir.Value | int, high: ir.Value | int, step: int = 1) -> CountedLoop:
        """Return a loop of iterations that are one after the other."""
        return CountedLoop(self.builder, _number(low), _number(high), step=step)

    @contextmanager
    def slots(self) -> Iterator[Slot]:
        """Repeat code for each element."""
        if self.is_flat or len(self.shape) == 1:
            with self.loop(0, self.count) as index:
                yield Slot(index, index)
            return
        rows, columns = self.shape
        with self.repeat(0, rows) as row, self.loop(0, columns) as column:
            yield self.slot([row, column])

    def slot(self, indices: Sequence[ir.Value]) -> Slot:
        """Return an element by its index along each axis."""
        index = indices[0]
        if len(indices) > 1:
            start = self.builder.mul(index, _I64(self.shape[1]))
            index = self.builder.add(start, indices[1])
        return Slot(index, index, indices=indices)

    # -- elements ---------------------------------------------------------------------------------

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


def _number(bound: ir.Value | int) -> ir.Value:
    return _I64(bound) if isinstance(bound, int) else bound
