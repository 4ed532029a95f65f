"""Elements of tile expressions: maps, values of threads, elements by their places, copies."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.lowering.tile_places import tile_place
from targets.cuda.compile.tiles.thread_code import Memory, Slot

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import Storage, TileWriter

__all__ = ["element", "held", "write_copy", "write_map", "write_of", "write_own", "write_take"]

_I64 = ir.IntType(64)


def element(writer: TileWriter, operation: Operation, slot: Slot) -> ir.Value:
    """Write the region of an operation for one of the thread's elements."""
    attributes, code = operation.attributes, writer.code
    shape = writer.shape(operation)
    places = [slot.index]
    if len(shape) > 1:
        places = list(code.line_and_place(slot.index, shape[1]))
    tiles = operation.operands[attributes["first"] :]
    given = [
        _element_of(writer, tile, places[::-1] if is_transposed else places, slot)
        for tile, is_transposed in zip(tiles, attributes["transposed"], strict=True)
    ]
    given += [places[axis] for axis in attributes["axes"]]
    return writer.region(operation.regions[0], *given)


def _element_of(writer: TileWriter, tile: Value, places: list[ir.Value], slot: Slot) -> ir.Value:
    """Return the element of a tile, which is repeated along the axes of extent 1."""
    storage = writer.storage(tile)
    if not storage.is_shared:
        return storage.get(slot)
    index: ir.Value | None = None
    shape = storage.place.shape
    for extent, place in zip(shape, places[-len(shape) :], strict=True):
        if extent > 1:
            index = place if index is None else writer.code.at(index, extent, place)
    return storage.memory.get(_I64(0) if index is None else index)


def held(writer: TileWriter, operation: Operation, kind: Any) -> Memory:
    """Return registers with the thread's elements of an operation's region."""
    region, attributes = operation.regions[0], operation.attributes
    is_tile = len(region.operations) == 1 and region.yielded == region.arguments
    if is_tile and attributes["transposed"] == (False,):
        storage = writer.storage(operation.operands[attributes["first"]])
        if not storage.is_shared and storage.place.kind == kind:
            return storage.memory
    layout = writer.layout(operation)
    own = writer.code.local(kind, layout.rounds * layout.group)
    with writer.elements(operation) as (slot, value):
        own.set(slot.slot, value)
    return own


def _write(
    writer: TileWriter,
    operation: Operation,
    value: Callable[[Slot], ir.Value],
    read: Iterable[Value],
) -> None:
    """Give the result of an operation its elements; `read` are the tiles that it reads."""
    code, target = writer.code, writer.storage(operation.result)
    layout = writer.layout(operation)
    if target.is_shared and any(writer.storage(t).memory is target.memory for t in read):
        # Other threads read what a thread would write.
        own = code.local(target.place.kind, layout.rounds * layout.group)
        with code.slots(layout) as slot:
            own.set(slot.slot, value(slot))
        with writer.written(target), code.slots(layout) as slot:
            target.set(slot, own.get(slot.slot))
        return
    with writer.written(target), code.slots(layout) as slot:
        target.set(slot, value(slot))


def write_map(writer: TileWriter, operation: Operation) -> None:
    """Write a tile of an expression's elements."""
    _write(writer, operation, lambda slot: element(writer, operation, slot), operation.operands)


def write_take(writer: TileWriter, operation: Operation) -> None:
    """Write a tile of elements by their places in the rows of another tile."""
    code, builder = writer.code, writer.code.builder
    source = writer.storage(operation.operands[0])
    shape, extent = writer.shape(operation), source.place.shape[-1]
    kind = operation.regions[0].yielded[0].type

    def taken(slot: Slot) -> ir.Value:
        column = tile_place(builder, kind, element(writer, operation, slot))
        zero, last = _I64(0), _I64(extent - 1)
        column = builder.select(builder.icmp_signed("<", column, zero), zero, column)
        column = builder.select(builder.icmp_signed("<", column, last), column, last)
        if len(shape) > 1:
            row, _ = code.line_and_place(slot.index, shape[1])
            column = code.at(row, extent, column)
        return source.memory.get(column)

    _write(writer, operation, taken, operation.operands)


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
            target.set(slot, source.get(slot))


def _in_registers(writer: TileWriter, source: Storage) -> Storage:
    """Return a copy of the thread's elements of a tile."""
    copy = writer.registers(source.place)
    with writer.code.slots(writer.layout_of(source.place)) as slot:
        copy.set(slot, source.get(slot))
    return copy
