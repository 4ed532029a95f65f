"""Elements of tile expressions: maps, values of threads, elements by their places, copies."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, cast

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.tiles.elements import ElementCode, Slot, TileMemory, write_take
from kerneldsl.ir.tiles.layout import Layout
from kerneldsl.ir.tiles.live_ranges import is_tile
from targets.cuda.compile.tiles.thread_code import Memory

if TYPE_CHECKING:
    from targets.cuda.compile.mma.fragments import Fragments
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = ["OperationCode", "write_copy", "write_map", "write_of", "write_own", "write_taken"]

_I64 = ir.IntType(64)


class OperationCode(ElementCode):
    """Writes the thread's elements of one operation.

    - `writer`: has the tiles.
    """

    def __init__(self, writer: TileWriter, operation: Operation) -> None:
        super().__init__(writer.emitter, operation, writer.shape(operation))
        self._writer = writer
        self.layout = writer.layout(operation)

    def slots(self) -> AbstractContextManager[Slot]:
        return self._writer.code.slots(self.layout)

    def tile(self, value: Value) -> Storage:
        return self._writer.storage(value)

    def tile_shape(self, number: int) -> tuple[int, ...]:
        return self.tile(self.tiles[number]).place.shape

    def own_slot(self, memory: TileMemory, shape: tuple[int, ...], slot: Slot) -> Slot | None:
        if shape != self.shape and not isinstance(self.layout, Layout):
            # An element for each row, in registers.
            fragments = cast("Fragments", self.layout)
            return Slot(slot.index, fragments.row_slot(self.builder, slot.slot))
        return super().own_slot(memory, shape, slot)

    def registers(self, kind: Any) -> Memory:
        """Declare registers for the thread's elements."""
        return self._writer.code.local(kind, self.layout.slot_count)

    def held(self, kind: Any) -> Memory:
        """Return registers with the thread's elements."""
        tile = self.only_tile()
        if tile is not None and not self.tile(tile).is_shared and self.tile(tile).kind == kind:
            return self.tile(tile).memory
        own = self.registers(kind)
        with self.elements() as (slot, value):
            own.set(slot.slot, value)
        return own

    def fill(self, value: Callable[[Slot], ir.Value]) -> None:
        """Give the result of the operation its elements."""
        writer, target = self._writer, self.tile(self.operation.result)
        tiles = [each for each in self.operation.operands if is_tile(each)]
        if target.is_shared and any(self.tile(each).memory is target.memory for each in tiles):
            # The result is complete in registers first: other threads read elements that this
            # thread overwrites.
            own = self.registers(target.kind)
            with self.slots() as slot:
                own.set(slot.slot, value(slot))
            with writer.written(target), self.slots() as slot:
                target.put(slot, own.get(slot.slot))
            return
        with writer.written(target), self.slots() as slot:
            target.put(slot, value(slot))


def write_map(writer: TileWriter, operation: Operation) -> None:
    """Write a tile of an expression's elements."""
    code = OperationCode(writer, operation)
    code.fill(code.element)


def write_taken(writer: TileWriter, operation: Operation) -> None:
    """Write a tile of elements by their places in the rows of another tile."""
    code, source = OperationCode(writer, operation), writer.storage(operation.operands[0])
    code.fill(write_take(code, source, source.place.shape[-1]))


def write_of(writer: TileWriter, operation: Operation) -> None:
    """Write a tile of the values of threads."""
    (value,) = operation.operands
    target = writer.storage(operation.result)
    with writer.written(target):
        index = writer.code.thread if target.is_shared else _I64(0)
        target.memory.set(index, writer.emitter.get(value))


def write_own(writer: TileWriter, operation: Operation) -> None:
    """Write the thread's element of a tile."""
    storage = writer.storage(operation.operands[0])
    index = writer.code.thread if storage.is_shared else _I64(0)
    writer.emitter.set(operation, storage.memory.get(index))


def write_copy(writer: TileWriter, operation: Operation) -> None:
    """Copy tiles to the places in which a branch or loop hands them on."""
    pairs = [
        (writer.storage(source), writer.storage(target))
        for source, target in zip(operation.operands, operation.attributes["targets"], strict=True)
    ]
    sources = [source.memory for source, _ in pairs]
    if any(target.memory in sources for _, target in pairs):
        pairs = [(_in_registers(writer, source), target) for source, target in pairs]
    for source, target in pairs:
        layout = writer.layout_of(source.place)
        with writer.written(target), writer.code.slots(layout) as slot:
            target.put(slot, source.own(slot))


def _in_registers(writer: TileWriter, source: Storage) -> Storage:
    """Return a copy of the thread's elements of a tile."""
    copy = writer.registers(source.place)
    with writer.code.slots(writer.layout_of(source.place)) as slot:
        copy.put(slot, source.own(slot))
    return copy
