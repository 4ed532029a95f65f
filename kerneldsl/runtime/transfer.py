"""Copies between NumPy arrays and strided memory of a device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kerneldsl.runtime.placement import Place

__all__ = ["byte_bounds", "host_view", "read_array", "write_array"]

#: Up to so many contiguous runs are copied one by one; more are copied as one span.
_MAX_RUNS = 256


def byte_bounds(
    pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int
) -> tuple[int, int]:
    """First and past-the-last address of a strided array; both the pointer if it is empty."""
    low = high = pointer
    for extent, stride in zip(shape, strides, strict=True):
        if extent == 0:
            return pointer, pointer
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + itemsize


class _HostMemory:
    """Memory at an address, as NumPy's array interface; keeps its owner alive."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self._owner = owner


def host_view(
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: np.dtype[Any],
    owner: Any,
    is_read_only: bool = False,
) -> np.ndarray[Any, Any]:
    """A NumPy array over host memory that belongs to somebody else."""
    if 0 in shape:  # an empty array may have the null address, which NumPy does not take
        return np.empty(shape, dtype)
    interface = {
        "shape": shape,
        "strides": strides,
        "typestr": dtype.str,
        "data": (pointer, is_read_only),
        "version": 3,
    }
    return np.asarray(_HostMemory(interface, owner))


def _same_memory_order(
    shape: tuple[int, ...], left: tuple[int, ...], right: tuple[int, ...]
) -> bool:
    return all(n == 1 or a == b for n, a, b in zip(shape, left, right, strict=True))


def read_array(
    place: Place,
    pointer: int,
    strides: tuple[int, ...],
    out: np.ndarray[Any, Any],
    stream: Any = None,
) -> None:
    """Copy a strided array on a device into a NumPy array of its shape and dtype."""
    if out.size == 0:
        return
    low, high = byte_bounds(pointer, out.shape, strides, out.itemsize)
    if high - low == out.nbytes and _same_memory_order(out.shape, strides, out.strides):
        start = byte_bounds(out.ctypes.data, out.shape, out.strides, out.itemsize)[0]
        place.target.copy_to_host(place.device, start, low, high - low, stream)
        return
    span = np.empty(high - low, np.uint8)
    place.target.copy_to_host(place.device, span.ctypes.data, low, high - low, stream)
    out[...] = host_view(
        span.ctypes.data + pointer - low, out.shape, strides, out.dtype, span, is_read_only=True
    )


def write_array(
    place: Place,
    pointer: int,
    strides: tuple[int, ...],
    array: np.ndarray[Any, Any],
    stream: Any = None,
) -> None:
    """Copy a NumPy array into a strided array of its shape and dtype on a device.

    Bytes between the elements keep their values: runs that are contiguous on the device are copied
    one by one, or, where they are many, the span is read, changed and written back after the device
    has come to rest.
    """
    if array.size == 0:
        return
    low, high = byte_bounds(pointer, array.shape, strides, array.itemsize)
    if high - low == array.nbytes:
        ordered = _as_strided_like(array, strides)
        start = byte_bounds(ordered.ctypes.data, ordered.shape, ordered.strides, ordered.itemsize)
        place.target.copy_from_host(place.device, low, start[0], high - low, stream)
        return
    if place.is_host:
        target = host_view(pointer, array.shape, strides, array.dtype, None)
        target[...] = array
        return
    runs = _run_axis(array.shape, strides, array.itemsize)
    if int(np.prod(array.shape[:runs])) <= _MAX_RUNS:
        packed = np.ascontiguousarray(array)
        size = int(np.prod(array.shape[runs:])) * array.itemsize
        for count, offset in enumerate(_offsets(array.shape[:runs], strides)):
            source = packed.ctypes.data + count * size
            place.target.copy_from_host(place.device, pointer + offset, source, size, stream)
        return
    place.target.synchronize(place.device)
    span = np.empty(high - low, np.uint8)
    place.target.copy_to_host(place.device, span.ctypes.data, low, high - low, stream)
    view = host_view(span.ctypes.data + pointer - low, array.shape, strides, array.dtype, span)
    view[...] = array
    place.target.copy_from_host(place.device, low, span.ctypes.data, high - low, stream)


def _as_strided_like(array: np.ndarray[Any, Any], strides: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The array, copied if its elements do not follow each other in memory as the strides say."""
    if _same_memory_order(array.shape, strides, array.strides):
        return array
    low, high = byte_bounds(0, array.shape, strides, array.itemsize)
    memory = np.empty(high - low, np.uint8)
    ordered = host_view(memory.ctypes.data - low, array.shape, strides, array.dtype, memory)
    ordered[...] = array
    return ordered


def _run_axis(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> int:
    """First axis from which on the elements are contiguous in C order."""
    step = itemsize
    axis = len(shape)
    while axis and (shape[axis - 1] == 1 or strides[axis - 1] == step):
        axis -= 1
        step *= shape[axis]
    return axis


def _offsets(shape: tuple[int, ...], strides: tuple[int, ...]) -> Iterator[int]:
    for index in np.ndindex(*shape):
        yield sum(i * s for i, s in zip(index, strides, strict=False))
