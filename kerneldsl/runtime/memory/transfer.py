"""Copies between NumPy arrays and strided memory of one device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kerneldsl.errors import GraphError
from kerneldsl.runtime.memory.strided import (
    as_strided_like,
    byte_bounds,
    host_view,
    is_dense,
    offsets,
    run_axis,
    same_memory_order,
)
from kerneldsl.runtime.statistics import note_copy
from kerneldsl.runtime.streams.order import keep_until_done, put
from kerneldsl.target import Device, DeviceStream

__all__ = ["MAX_RUNS", "byte_bounds", "fill_array", "host_view", "read_array", "write_array"]

#: Up to so many contiguous runs are copied one by one; more are copied as one span.
MAX_RUNS = 256


def _refuse_recording(stream: Any, what: str) -> None:
    if isinstance(stream, DeviceStream) and stream.recording is not None:
        raise GraphError(
            f"{what} cannot be recorded in a stream of {stream.device}",
            limit="A recording holds copies of contiguous arrays that do not wait (blocking=False)",
            remedy="Copy with blocking=False between contiguous arrays, or before the recording",
        )


def read_array(
    place: Device,
    pointer: int,
    strides: tuple[int, ...],
    out: np.ndarray[Any, Any],
    stream: Any = None,
    *,
    blocking: bool = True,
    owner: Any = None,
) -> None:
    """Copy a strided array on a device into a NumPy array of its shape and dtype.

    Parameters
    ----------
    place : Device
        The device.
    pointer, strides : int, tuple of int
        The array there.
    out : ndarray
        Where to.
    stream : object
        As `order.stream_of` returns it.
    blocking : bool
        Whether to wait for the copy. One that has to be unpacked on the host always waits.
    owner : object
        What keeps the array on the device alive.
    """
    if out.size == 0:
        return
    if strides == out.strides and out.flags.c_contiguous:  # as most are: spare them the arithmetic
        low, nbytes, start = pointer, out.nbytes, out.ctypes.data
        is_direct = True
    else:
        low, high = byte_bounds(pointer, out.shape, strides, out.itemsize)
        nbytes = high - low
        start = byte_bounds(out.ctypes.data, out.shape, out.strides, out.itemsize)[0]
        is_direct = is_dense(out.shape, strides, out.itemsize) and same_memory_order(
            out.shape, strides, out.strides
        )
    if not is_direct:
        _refuse_recording(stream, "a copy that is unpacked on the host")
        span = np.empty(nbytes, np.uint8)
        place.copy_to_host(span.ctypes.data, low, nbytes, stream)
        out[...] = host_view(
            span.ctypes.data + pointer - low, out.shape, strides, out.dtype, span, is_read_only=True
        )
    elif blocking:
        _refuse_recording(stream, "a copy to the host that waits")
        place.copy_to_host(start, low, nbytes, stream)
    else:

        def run() -> None:
            place.copy_to_host(start, low, nbytes, stream, blocking=False)

        put(stream, f"copy {nbytes} bytes to the host", run, out, owner)
        if not place.is_host:
            keep_until_done(place, stream, out, owner)
    note_copy(place, "device_to_host", nbytes)


def write_array(
    place: Device,
    pointer: int,
    strides: tuple[int, ...],
    array: np.ndarray[Any, Any],
    stream: Any = None,
    *,
    blocking: bool = True,
    owner: Any = None,
) -> None:
    """Copy a NumPy array into a strided array of its shape and dtype on a device.

    Parameters are those of `read_array`. Bytes between the elements keep their values: runs that
    are contiguous on the device are copied one by one, or, where they are many, the span is read,
    changed and written back after the device has come to rest.
    """
    if array.size == 0:
        return
    shape, size = array.shape, array.itemsize
    if strides == array.strides and array.flags.c_contiguous:
        source, nbytes = array.ctypes.data, array.nbytes
        _write(place, pointer, source, nbytes, stream, blocking, (array, owner))
        return
    low, high = byte_bounds(pointer, shape, strides, size)
    if is_dense(shape, strides, size):
        ordered = as_strided_like(array, strides)
        start = byte_bounds(ordered.ctypes.data, shape, ordered.strides, size)[0]
        _write(place, low, start, high - low, stream, blocking, (ordered, owner))
        return
    axis = run_axis(shape, strides, size)
    if not place.is_host and math.prod(shape[:axis]) <= MAX_RUNS:
        packed = np.ascontiguousarray(array)
        run_bytes = math.prod(shape[axis:]) * size
        for count, offset in enumerate(offsets(shape[:axis], strides)):
            source = packed.ctypes.data + count * run_bytes
            _write(place, pointer + offset, source, run_bytes, stream, blocking, (packed, owner))
        return
    _refuse_recording(stream, "a copy into many small pieces")
    if place.is_host:
        host_view(pointer, shape, strides, array.dtype, None)[...] = array
        return
    place.synchronize()
    span = np.empty(high - low, np.uint8)
    place.copy_to_host(span.ctypes.data, low, high - low, stream)
    host_view(span.ctypes.data + pointer - low, shape, strides, array.dtype, span)[...] = array
    place.copy_from_host(low, span.ctypes.data, high - low, stream)
    note_copy(place, "device_to_host", high - low)
    note_copy(place, "host_to_device", high - low)


def _write(
    place: Device,
    destination: int,
    source: int,
    nbytes: int,
    stream: Any,
    blocking: bool,
    needed: tuple[Any, ...],
) -> None:
    """Copy contiguous bytes of the host to the device."""
    if blocking:
        _refuse_recording(stream, "a copy from the host that waits")
        place.copy_from_host(destination, source, nbytes, stream)
    else:

        def run() -> None:
            place.copy_from_host(destination, source, nbytes, stream, blocking=False)

        put(stream, f"copy {nbytes} bytes from the host", run, *needed)
        if not place.is_host:
            keep_until_done(place, stream, *needed)
    note_copy(place, "host_to_device", nbytes)


# --------------------------------------------------------------------------- filling


def fill_array(
    place: Device,
    pointer: int,
    strides: tuple[int, ...],
    shape: tuple[int, ...],
    element: np.ndarray[Any, Any],
    stream: Any = None,
    *,
    is_contiguous: bool = False,
    owner: Any = None,
) -> None:
    """Set every element of a strided array on a device to one value, in the stream's order.

    Parameters are those of `read_array`, `element` a NumPy array of rank 0; `is_contiguous` says
    that the array is known to be so. Nothing is copied from the host unless the array is strided in
    many small pieces.
    """
    if 0 in shape:
        return
    size = element.itemsize
    if is_contiguous:
        _fill(place, pointer, math.prod(shape), element, stream, owner)
        return
    if is_dense(shape, strides, size):
        low, high = byte_bounds(pointer, shape, strides, size)
        _fill(place, low, (high - low) // size, element, stream, owner)
        return
    axis = run_axis(shape, strides, size)
    if not place.is_host and math.prod(shape[:axis]) <= MAX_RUNS:
        for offset in offsets(shape[:axis], strides):
            _fill(place, pointer + offset, math.prod(shape[axis:]), element, stream, owner)
        return
    write_array(place, pointer, strides, np.broadcast_to(element, shape), stream, owner=owner)


def _fill(
    place: Device,
    pointer: int,
    count: int,
    element: np.ndarray[Any, Any],
    stream: Any,
    owner: Any,
) -> None:
    pattern = _shortest(element.tobytes())
    repetitions = count * element.itemsize // len(pattern)
    if stream is None:  # as mostly, and never recorded
        place.fill(pointer, pattern, repetitions)
        return

    def run() -> None:
        place.fill(pointer, pattern, repetitions, stream)

    put(stream, f"fill {count * element.itemsize} bytes", run, owner)


def _shortest(pattern: bytes) -> bytes:
    """The shortest pattern that gives the same bytes when it is repeated."""
    while len(pattern) % 2 == 0 and pattern[: len(pattern) // 2] == pattern[len(pattern) // 2 :]:
        pattern = pattern[: len(pattern) // 2]
    return pattern
