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

from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.tensor_maps import (
    MAP_DTYPES,
    MAP_SWIZZLES,
    MAX_MAP_RANK,
    TENSOR_MAP_BYTES,
    TensorMap,
    map_offsets,
)
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["KEY_WORDS", "MAP_WORDS", "MapRecord", "MapWord", "map_records"]


class MapWord(IntEnum):
    """Offsets of fields in a record."""

    DTYPE = 0
    RANK = 1
    SWIZZLE = 2
    #: Where in the buffer the address of the array is, and where the map belongs.
    POINTER = 3
    PLACE = 4
    ITEM_BYTES = 5
    #: Addresses of the extents of the box, and of as many ones.
    BOX = 6
    ONES = 7
    #: Address of what the map was encoded from: address, extents and strides of the array.
    KEY = 8
    #: Address of the map.
    IMAGE = 9
    #: Where in the buffer the extents are, the innermost first.
    EXTENTS = 10
    #: Where the strides are, but the innermost one; 0 if elements follow each other without gaps.
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
    #: Of the array's address, extents and strides.
    pointer: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    #: Of the map.
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
    """Return the records of a kernel's tensor maps."""
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
