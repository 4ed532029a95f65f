"""Tensor maps as the null target's driver encodes them: what they describe, in plain words.

A driver's maps cannot be read. These can, so the maps of a launch are compared with its arguments.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

from kerneldsl.contract.abi import ParameterLayout
from kerneldsl.contract.tensor_maps import (
    L2_PROMOTION,
    MAP_DTYPES,
    MAP_SWIZZLES,
    MAX_MAP_EXTENT,
    MAX_MAP_RANK,
    MAX_MAP_STRIDE,
    TENSOR_MAP_BYTES,
    TensorMap,
    map_geometry,
    pad_for_maps,
)

__all__ = ["ENCODE", "encode", "with_maps"]

_U32, _ADDRESS = ctypes.c_uint, ctypes.c_size_t
#: Signature of ``cuTensorMapEncodeTiled``.
ENCODE = ctypes.CFUNCTYPE(ctypes.c_int, _ADDRESS, _U32, _U32, *(_ADDRESS,) * 5, *(_U32,) * 4)
_SUCCESS, _INVALID_VALUE = 0, 1
#: Address, dtype, rank and swizzle, extents, strides, box.
_WORDS = f"=Q3I{MAX_MAP_RANK}Q{MAX_MAP_RANK - 1}Q{MAX_MAP_RANK}I"
#: Addresses and strides are multiples of it.
_ALIGNMENT = 16


def encode(
    out: int,
    dtype: int,
    rank: int,
    address: int,
    extents: int,
    strides: int,
    box: int,
    ones: int,
    interleave: int,
    swizzle: int,
    promotion: int,
    fill: int,
) -> int:
    """Write a map to an address, or answer a status, as a driver would."""
    lengths = list((ctypes.c_uint64 * rank).from_address(extents))
    steps = list((ctypes.c_uint64 * (rank - 1)).from_address(strides)) if rank > 1 else []
    boxes = list((ctypes.c_uint32 * rank).from_address(box))
    is_good = (
        out % TENSOR_MAP_BYTES == 0
        and address % _ALIGNMENT == 0
        and address > 0
        and all(1 <= each <= MAX_MAP_EXTENT for each in lengths)
        and all(0 < each <= MAX_MAP_STRIDE and each % _ALIGNMENT == 0 for each in steps)
        and list((ctypes.c_uint32 * rank).from_address(ones)) == [1] * rank
        and (interleave, promotion, fill) == (0, L2_PROMOTION, 0)
    )
    if not is_good:
        return _INVALID_VALUE
    found = _packed(address, dtype, rank, swizzle, lengths, steps, boxes)
    ctypes.memmove(out, found, TENSOR_MAP_BYTES)
    return _SUCCESS


def with_maps(parameters: bytes, layout: ParameterLayout, maps: Sequence[TensorMap]) -> bytes:
    """Return what a driver is given for packed parameters and the maps that a kernel takes."""
    if not maps:
        return parameters
    values, found = layout.packer.unpack(parameters), []
    for wanted in maps:
        array = layout.arrays[wanted.array]
        address, extents, strides = map_geometry(wanted, array, values)
        dtype, swizzle = MAP_DTYPES[array.kind.dtype], MAP_SWIZZLES[wanted.swizzle]
        rank, box = len(wanted.axes), wanted.box
        found.append(_packed(address, dtype, rank, swizzle, extents, strides, box))
    return pad_for_maps(parameters, found)


def _packed(
    address: int,
    dtype: int,
    rank: int,
    swizzle: int,
    extents: Sequence[int],
    strides: Sequence[int],
    box: Sequence[int],
) -> bytes:
    rest = [0] * (MAX_MAP_RANK - rank)
    words = (address, dtype, rank, swizzle, *extents, *rest, *strides, *rest, *box, *rest)
    return struct.pack(_WORDS, *words).ljust(TENSOR_MAP_BYTES, b"\0")
