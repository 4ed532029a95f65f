"""Find the places of the sorted elements of a tile; equal elements keep their order.

Integers of 64 bits are sorted: the integer by which an element is sorted above its place, so that
no two are equal. One of 64 bits itself is sorted by its lower half first. Its upper half is then
sorted together with the place of the element after the first sort and its first place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.tiles.elements import Slot
from kerneldsl.ir.tiles.folds import key_type
from targets.cuda.compile.tiles.sorts import Sort

if TYPE_CHECKING:
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["write_argsort"]

_I64 = ir.IntType(64)
_HALF = 32
#: Bits of a place: shared memory has room for fewer integers.
_PLACE_BITS = 16


def write_argsort(writer: TileWriter, operation: Operation) -> None:
    """Write the places of a tile's sorted elements."""
    sort = Sort(writer, operation, types.uint64)
    if sort.bits == 0:
        with writer.written(sort.target):
            sort.write_target(lambda slot: _I64(0))
        return
    builder = writer.code.builder
    sort.declare()
    if key_type(sort.element_kind) == types.uint64:
        _sort_by_halves(writer, sort)
        bits = _PLACE_BITS
    else:
        sort.sort(lambda slot: _above(builder, sort.key_of(slot), sort.column(slot.index)))
        bits = _HALF
    sort.write_target(lambda slot: _low(builder, sort.sorted_key(slot.index), bits))
    sort.release()


def _sort_by_halves(writer: TileWriter, sort: Sort) -> None:
    code, builder, layout = writer.code, writer.code.builder, sort.layout
    count = math.prod(writer.shape(sort.operation))
    keys = writer.room(sort.operation, types.uint64, count, "keys")
    first = code.local(types.int64, layout.rounds * layout.group)

    def lower(slot: Slot) -> ir.Value:
        return _above(builder, keys.get(slot.index), sort.column(slot.index))

    def upper(slot: Slot) -> ir.Value:
        column = sort.column(slot.index)
        was = first.get(slot.slot)
        place = builder.add(builder.sub(slot.index, column), was)
        key = builder.lshr(keys.get(place), _I64(_HALF))
        places = builder.add(builder.shl(column, _I64(_PLACE_BITS)), was)
        return _above(builder, key, places)

    with code.slots(layout) as slot:
        keys.set(slot.index, sort.key_of(slot))
    code.wait()
    sort.sort(lower)
    with code.slots(layout) as slot:
        first.set(slot.slot, _low(builder, sort.sorted_key(slot.index), _HALF))
    code.wait()
    sort.sort(upper)


def _above(builder: ir.IRBuilder, key: ir.Value, low: ir.Value) -> ir.Value:
    """Return an integer of the lower half of a key, and 32 bits below it."""
    wide = key if key.type == _I64 else builder.zext(key, _I64)
    return builder.or_(builder.shl(wide, _I64(_HALF)), low)


def _low(builder: ir.IRBuilder, key: ir.Value, bits: int) -> ir.Value:
    """Return the lowest bits of an integer, as a place."""
    return builder.and_(key, _I64((1 << bits) - 1))
