"""Loads and stores of tiles.

Tiles of one axis are moved by :mod:`targets.cuda.intrinsics.tile_memory`, others element by
element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.lowering.tile_places import tile_place
from targets.cuda.compile.tiles.thread_code import Memory, Slot
from targets.cuda.intrinsics.tile_memory import (
    load_elements,
    store_elements,
)

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["is_harmless", "write_load", "write_place", "write_store"]

_I64 = ir.IntType(64)
#: Operations that access no memory, and that end.
_HARMLESS = frozenset(
    {"cast", "const", "if", "labeled", "leave", "numba", "undefined", "unreachable", "yield"}
)


def write_place(writer: TileWriter, operation: Operation) -> None:
    """Write the index of a tile's first element as 64 bits."""
    writer.emitter.set(operation, _start(writer, operation.operands[0]))


def write_load(writer: TileWriter, operation: Operation) -> None:
    """Write a tile of the elements of an array."""
    array, other, *at = operation.operands
    code, layout = writer.code, writer.layout(operation)
    access = _Access(writer, operation, array, at)
    target, rest = writer.storage(operation.result), writer.emitter.get(other)
    dtype = operation.result.type.dtype
    if len(at) == 1 and not target.is_shared:
        own = writer.own_elements(target.memory)
        load_elements(own, access.array, rest, access.starts[0], code.thread, layout)
        return
    builder = code.builder
    with writer.written(target), code.slots(layout) as slot:
        is_inside, place = access.of(slot)
        with builder.if_else(is_inside) as (yes, no):
            with yes:
                value = access.array.value_at(place())
                value = writer.emitter.convert(value, array.type.dtype, dtype)
                target.set(slot, value)
            with no:
                target.set(slot, rest)


def write_store(writer: TileWriter, operation: Operation) -> None:
    """Write the elements of an expression to an array."""
    count = len(writer.shape(operation))
    array, *at = operation.operands[: 1 + count]
    access = _Access(writer, operation, array, at)
    if operation.attributes.get("waits"):
        _store_afterwards(writer, operation, access)
    elif count > 1:
        _store_each(writer, operation, access)
    elif all(map(is_harmless, operation.regions[0].walk())):
        _store_neighbours(writer, operation, access)
    else:
        # Only elements that the array has a place for are computed.
        is_wide = access.array.is_wide(access.starts[0], writer.layout(operation))
        with writer.code.builder.if_else(is_wide) as (wide, narrow):
            with wide:
                _store_neighbours(writer, operation, access)
            with narrow:
                _store_each(writer, operation, access)


def is_harmless(operation: Operation) -> bool:
    """Return whether an operation may run for elements that are beyond the bounds of an array."""
    numbers = types.Number | types.Boolean | types.NoneType | types.BaseTuple
    return (
        operation.name in _HARMLESS
        and operation.effect in (Effect.NONE, Effect.LEAVE)
        and all(isinstance(value.type, numbers) for value in operation.operands)
    )


def _store_neighbours(writer: TileWriter, operation: Operation, access: _Access) -> None:
    """Compute all elements, and store groups of neighbours if possible."""
    own = writer.own_elements(writer.held(operation, access.kind.dtype))
    layout = writer.layout(operation)
    store_elements(access.array, own, access.starts[0], writer.code.thread, layout)


def _store_each(writer: TileWriter, operation: Operation, access: _Access) -> None:
    """Compute and store each element that the array has a place for."""
    with writer.code.slots(writer.layout(operation)) as slot:
        is_inside, place = access.of(slot)
        with writer.code.when(is_inside):
            access.array.put_at(place(), writer.element(operation, slot))


def _store_afterwards(writer: TileWriter, operation: Operation, access: _Access) -> None:
    """Compute each element that the array has a place for, then store them."""
    code, layout = writer.code, writer.layout(operation)
    own: Memory = code.local(access.kind.dtype, layout.rounds * layout.group)
    with code.slots(layout) as slot:
        is_inside, _ = access.of(slot)
        with code.when(is_inside):
            own.set(slot.slot, writer.element(operation, slot))
    code.wait()
    with code.slots(layout) as slot:
        is_inside, place = access.of(slot)
        with code.when(is_inside):
            access.array.put_at(place(), own.get(slot.slot))


def _start(writer: TileWriter, value: Value) -> ir.Value:
    found = writer.emitter.get(value)
    if isinstance(found, ir.Constant) and found.type == _I64:
        return found
    return tile_place(writer.code.builder, value.type, found)


class _Access:
    """The elements of an array that belong to a tile."""

    def __init__(
        self, writer: TileWriter, operation: Operation, array: Value, at: list[Value]
    ) -> None:
        self._writer = writer
        self._shape = writer.shape(operation)
        self.kind = array.type
        self.array = writer.array(array)
        #: The index of the first element along each axis.
        self.starts = [_start(writer, place) for place in at]

    def of(self, slot: Slot) -> tuple[ir.Value, Any]:
        """Return whether the array has a place for an element, and what writes its address."""
        code, builder = self._writer.code, self._writer.code.builder
        parts = [slot.index]
        if len(self._shape) > 1:
            parts = list(code.line_and_place(slot.index, self._shape[1]))
        indices = [builder.add(s, part) for s, part in zip(self.starts, parts, strict=True)]
        is_inside: Any = None
        for index, extent in zip(indices, self.array.shape, strict=True):
            for test in (
                builder.icmp_signed(">=", index, _I64(0)),
                builder.icmp_signed("<", index, extent),
            ):
                is_inside = test if is_inside is None else builder.and_(is_inside, test)
        return is_inside, lambda: self.array.place(*indices)
