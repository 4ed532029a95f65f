"""The tensor maps of a launch, as native code encodes them.

A record has everything that the driver's function takes, and the map that was encoded last with
what it was encoded from. Native code encodes a map again if an array is another one. It holds the
interpreter's lock meanwhile, so threads may share a record.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from llvmlite import ir

from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.tensor_maps import (
    L2_PROMOTION,
    MAP_DTYPES,
    MAP_SWIZZLES,
    MAX_MAP_RANK,
    TENSOR_MAP_BYTES,
    TensorMap,
    map_offsets,
)
from kerneldsl.launch.native.builder import I32, I64, POINTER, Function
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["KEY_WORDS", "MAP_WORDS", "MapRecord", "MapWord", "emit_maps", "map_records"]


class MapWord(IntEnum):
    """Offsets of fields in a record."""

    DTYPE = 0
    RANK = 1
    SWIZZLE = 2
    #: Offsets in the buffer of the array's address and of the map.
    POINTER = 3
    PLACE = 4
    ITEM_BYTES = 5
    #: Addresses of the extents of the box, and of as many ones.
    BOX = 6
    ONES = 7
    #: Address of the key of the encoded map: address, extents and strides of the array.
    KEY = 8
    #: Address of the map.
    IMAGE = 9
    #: Offset in the buffer of the extents, the innermost first.
    EXTENTS = 10
    #: Offset in the buffer of the strides except the innermost; 0 for contiguous elements.
    STRIDES = 15


MAP_WORDS = MapWord.STRIDES + MAX_MAP_RANK - 1
#: Address, extents and strides.
KEY_WORDS = 2 * MAX_MAP_RANK


@dataclass(frozen=True, slots=True)
class MapRecord:
    """A tensor map, with places in the parameter buffer in bytes."""

    wanted: TensorMap
    dtype: int
    item_bytes: int
    #: Offsets of the array's address, extents and strides.
    pointer: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    #: Offset of the map.
    place: int

    @property
    def end(self) -> int:
        """The place after the map."""
        return self.place + TENSOR_MAP_BYTES

    def words(self, put: Callable[[Sequence[int]], int], kept: list[Any]) -> list[int]:
        """Return the record; `put` writes words down and says where, `kept` keeps other memory."""
        rank = len(self.wanted.axes)
        kind = ctypes.c_uint32 * rank
        box, ones = kind(*self.wanted.box), kind(*[1] * rank)
        room = ctypes.create_string_buffer(2 * TENSOR_MAP_BYTES)
        kept += (box, ones, room)
        image = -(-ctypes.addressof(room) // TENSOR_MAP_BYTES) * TENSOR_MAP_BYTES
        found = [0] * MAP_WORDS
        found[MapWord.DTYPE] = self.dtype
        found[MapWord.RANK] = rank
        found[MapWord.SWIZZLE] = MAP_SWIZZLES[self.wanted.swizzle]
        found[MapWord.POINTER] = self.pointer
        found[MapWord.PLACE] = self.place
        found[MapWord.ITEM_BYTES] = self.item_bytes
        found[MapWord.BOX] = ctypes.addressof(box)
        found[MapWord.ONES] = ctypes.addressof(ones)
        found[MapWord.KEY] = put([0] * KEY_WORDS)
        found[MapWord.IMAGE] = image
        found[MapWord.EXTENTS : MapWord.EXTENTS + rank] = self.extents
        found[MapWord.STRIDES : MapWord.STRIDES + len(self.strides)] = self.strides
        return found


def map_records(maps: Sequence[TensorMap], layout: ParameterLayout) -> tuple[MapRecord, ...]:
    found = []
    for wanted, place in zip(maps, map_offsets(layout.nbytes, len(maps)), strict=True):
        array = layout.arrays[wanted.array]
        strides = [array.strides[axis] for axis in wanted.axes[1:]] if array.strides else []
        extents = [array.extents[axis] for axis in wanted.axes]
        pointer, *rest = (
            layout.parameters[number].offset for number in (array.pointer, *extents, *strides)
        )
        rank, dtype = len(extents), MAP_DTYPES[array.kind.dtype]
        offsets = pointer, tuple(rest[:rank]), tuple(rest[rank:])
        found.append(MapRecord(wanted, dtype, array.item_bytes, *offsets, place))
    return tuple(found)


# Native code that writes tensor maps after the packed arguments of a launch.

_DOUBLE_WORDS = TENSOR_MAP_BYTES // 8


def emit_maps(module: ir.Module) -> Any:
    """Emit ``i32 maps(ptr records, i64 count, i64 encode, ptr buffer)``: 1 where all are written.

    A map is encoded if its array is not the one that it was encoded for last.
    """
    f = Function(module, "maps", I32, [POINTER, I64, I64, POINTER], is_internal=True)
    records, count, encode, buffer = f.args
    bad = f.block("bad")
    key, room = f.b.alloca(I64, size=KEY_WORDS), f.b.alloca(I64)
    with f.loop(count) as i:
        record = f.at(records, f.b.mul(i, I64(8 * MAP_WORDS)))
        _read_key(f, record, buffer, key, room)
        known = f.load(record, 8 * MapWord.KEY, POINTER)
        image = f.load(record, 8 * MapWord.IMAGE, POINTER)
        anew, ready = f.block("anew"), f.block("ready")
        f.unless(_are_equal(f, key, known, room), anew, ready)
        f.store(I64(0), known)  # no array is at that address
        extents, strides = f.at(key, 8), f.at(key, 8 * (1 + MAX_MAP_RANK))
        status = f.call(
            encode,
            I32,
            image,
            *(_number(f, record, which) for which in (MapWord.DTYPE, MapWord.RANK)),
            *(f.load(key, 0, POINTER), extents, strides),
            *(f.load(record, 8 * which, POINTER) for which in (MapWord.BOX, MapWord.ONES)),
            *(I32(0), _number(f, record, MapWord.SWIZZLE), I32(L2_PROMOTION), I32(0)),
        )
        f.require(f.equal(status, I32(0)), bad)
        f.copy_words(known, key, I64(KEY_WORDS))
        f.leave(ready)
        place = f.at(buffer, f.load(record, 8 * MapWord.PLACE))
        f.copy_words(place, image, I64(_DOUBLE_WORDS))
    return f.accept(bad)


def _number(f: Function, record: Any, which: MapWord) -> Any:
    return f.b.trunc(f.load(record, 8 * which), I32)


def _read_key(f: Function, record: Any, buffer: Any, key: Any, step: Any) -> None:
    """Write address, extents and strides of a map's array; what it has no axis for is 0."""
    with f.loop(I64(KEY_WORDS)) as i:
        f.store(I64(0), key, f.b.mul(i, I64(8)))
    f.store(f.load(f.at(buffer, f.load(record, 8 * MapWord.POINTER))), key)
    extents, strides = f.at(key, 8), f.at(key, 8 * (1 + MAX_MAP_RANK))
    f.store(f.load(record, 8 * MapWord.ITEM_BYTES), step)
    rank = f.load(record, 8 * MapWord.RANK)
    last = f.b.sub(rank, I64(1))
    with f.loop(rank) as i:
        at = f.b.mul(i, I64(8))
        extent = f.load(f.at(buffer, f.load(f.at(record, at), 8 * MapWord.EXTENTS)))
        f.store(extent, extents, at)
        f.store(f.b.mul(f.load(step), extent), step)
        with f.b.if_then(f.b.icmp_signed("<", i, last)):
            offset = f.load(f.at(record, at), 8 * MapWord.STRIDES)
            passed = f.load(f.at(buffer, offset))
            is_passed = f.b.icmp_unsigned("!=", offset, I64(0))
            f.store(f.b.select(is_passed, passed, f.load(step)), strides, at)


def _are_equal(f: Function, one: Any, other: Any, difference: Any) -> Any:
    f.store(I64(0), difference)
    with f.loop(I64(KEY_WORDS)) as i:
        at = f.b.mul(i, I64(8))
        found = f.b.xor(f.load(one, at), f.load(other, at))
        f.store(f.b.or_(f.load(difference), found), difference)
    return f.equal(f.load(difference), I64(0))
