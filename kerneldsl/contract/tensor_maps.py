"""Tensor maps: descriptions of arrays by which a CUDA device copies boxes of them.

A kernel may have tensor maps as parameters after those of :mod:`~kerneldsl.contract.abi`, each of
:data:`TENSOR_MAP_BYTES` bytes and aligned to as many. A launch encodes them from the address, shape
and strides of an array. The compiled code says which (:class:`TensorMap`).

References
----------
CUDA Driver API, "Tensor Map Object Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kerneldsl.contract.abi import ArrayParameters
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "L2_PROMOTION",
    "MAP_ALIGNMENT",
    "MAP_DTYPES",
    "MAP_SWIZZLES",
    "MAX_MAP_EXTENT",
    "MAX_MAP_RANK",
    "MAX_MAP_STRIDE",
    "TENSOR_MAP_BYTES",
    "MapGeometry",
    "TensorMap",
    "can_be_mapped",
    "map_geometry",
    "map_offsets",
    "pad_for_maps",
]

#: Size of a tensor map, and its alignment among the parameters.
TENSOR_MAP_BYTES = 128
#: Alignment of an array's address and of its strides, in bytes.
MAP_ALIGNMENT = 16
#: Most axes of an array.
MAX_MAP_RANK = 5
#: Largest extent along an axis, as indices have 32 bits, and largest stride in bytes.
MAX_MAP_EXTENT, MAX_MAP_STRIDE = 2**31 - 1, 2**40 - 16
#: ``CUtensorMapDataType`` by dtype of the elements, which copies do not convert.
MAP_DTYPES = {
    "int8": 0,
    "uint8": 0,
    "float8_e4m3fn": 0,
    "float8_e5m2": 0,
    "int32": 3,
    "float16": 6,
    "float32": 7,
    "bfloat16": 9,
}
#: ``CUtensorMapSwizzle`` by bytes.
MAP_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
#: ``CUtensorMapL2promotion``: the second-level cache reads 256 bytes.
L2_PROMOTION = 3


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A tensor map that a compiled kernel takes.

    Parameters
    ----------
    array : int
        Number of the array among the arrays of the arguments.
    axes : tuple of int
        Axes of the array, the one with neighbouring elements first.
    box : tuple of int
        Elements that one copy brings along each of these axes.
    swizzle : int
        Bytes of a row of shared memory within which 16-byte parts are exchanged: 0, 32, 64 or 128.
    """

    array: int
    axes: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int


class MapGeometry(NamedTuple):
    """The array that a tensor map describes, in the order of its axes.

    Attributes
    ----------
    address : int
        Of the first element.
    extents : tuple of int
        Elements along each axis.
    strides : tuple of int
        Bytes from an element to the next along each axis but the first.
    """

    address: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]


def map_geometry(wanted: TensorMap, array: ArrayParameters, values: Sequence[int]) -> MapGeometry:
    """Return what a map describes in a launch with the given values of parameters."""
    extents = tuple(values[array.extents[axis]] for axis in wanted.axes)
    if array.strides:
        strides = tuple(values[array.strides[axis]] for axis in wanted.axes[1:])
        return MapGeometry(values[array.pointer], extents, strides)
    step, found = array.item_bytes, []
    for extent in extents[:-1]:
        step *= extent
        found.append(step)
    return MapGeometry(values[array.pointer], extents, tuple(found))


def can_be_mapped(shape: Sequence[int], strides: Sequence[int], unit_axis: int | None) -> bool:
    """Return whether a tensor map can describe an array. Its address and strides are aligned.

    Examples
    --------
    >>> can_be_mapped((64, 32), (128, 4), 1), can_be_mapped((0, 32), (128, 4), 1)
    (True, False)
    """
    return (
        unit_axis is not None
        and len(shape) <= MAX_MAP_RANK
        and all(1 <= extent <= MAX_MAP_EXTENT for extent in shape)
        and all(
            0 < stride <= MAX_MAP_STRIDE for axis, stride in enumerate(strides) if axis != unit_axis
        )
    )


def map_offsets(parameter_bytes: int, count: int) -> tuple[int, ...]:
    """Return the places of tensor maps after so many bytes of other parameters."""
    first = -(-parameter_bytes // TENSOR_MAP_BYTES) * TENSOR_MAP_BYTES
    return tuple(first + TENSOR_MAP_BYTES * number for number in range(count))


def pad_for_maps(parameters: bytes, maps: Sequence[bytes]) -> bytes:
    """Return a parameter buffer with the encoded maps after it."""
    (first, *_) = map_offsets(len(parameters), len(maps))
    return parameters.ljust(first, b"\0") + b"".join(maps)
