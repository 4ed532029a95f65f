"""Copies between NumPy arrays and the memory of a device, and fills.

Most copies are of contiguous arrays of one dtype, and a small one takes as long as what Python does
around it. So these plain copies are distinguished from all others by comparisons alone, and are one
call of the target. The others are planned by :func:`~kerneldsl.memory.strided.copy_pieces`.

Streams are as :func:`~kerneldsl.streams.current.stream_of` returns them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, GraphError, ReadOnlyArrayError
from kerneldsl.errors.values import a_type
from kerneldsl.memory.device_memory import PooledBuffer
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.host_memory import SharedMemory
from kerneldsl.memory.strided import (
    MAX_RUNS,
    HostMemory,
    Pieces,
    address_of,
    as_strided_like,
    byte_bounds,
    copy_pieces,
    is_dense,
)
from kerneldsl.statistics.collect import note_copy
from kerneldsl.streams.order import keep_until_done, put

__all__ = ["fill_array", "host_copy", "plan_copy_pieces", "read_array", "write_array"]


def read_array(array: ArrayGeometry, out: Any, stream: Any, *, blocking: bool = True) -> None:
    """Copy an array on a device into a NumPy array of its shape and dtype.

    A copy that has to be unpacked on the host always waits.
    """
    device = array.device
    if (
        _is_plain(array, out)
        and out.flags.writeable
        and not is_recorded(stream)
        and (blocking or _outlives_copy(array, out))
    ):
        nbytes = out.nbytes
        start = address_of(out)
        device.copy_to_host(start, array.location, nbytes, stream, blocking=blocking)
        note_copy(device, "device_to_host", nbytes)
        if not blocking:
            array.note_use(stream)
        return
    _check_partner(array, out, "out")
    if not out.flags.writeable:
        raise ReadOnlyArrayError(
            "out is a read-only array", value=out, remedy="Pass a writable array"
        )
    if out.size == 0:
        return
    shape, size = array.shape, array.itemsize
    destination, source = (out.ctypes.data, out.strides), (array.location, array.strides)
    pieces = copy_pieces(shape, size, destination, source, max_count=1)
    if pieces is not None:
        _copy(array, out, pieces, stream, blocking, to_host=True)
    else:
        _refuse_recording(stream, "a copy that is unpacked on the host")
        out[...] = host_copy(array, stream)
    if not blocking:
        array.note_use(stream)


def host_copy(array: ArrayGeometry, stream: Any) -> np.ndarray[Any, Any]:
    """Copy the memory that an array on a device spans; return the same array over the copy.

    Parameters are those of `read_array`; the array has elements.
    """
    _refuse_recording(stream, "a copy to the host that waits")
    low, high = byte_bounds(array.location, array.shape, array.strides, array.itemsize)
    span = np.empty(high - low, np.uint8)
    array.device.copy_to_host(span.ctypes.data, low, span.nbytes, stream)
    note_copy(array.device, "device_to_host", span.nbytes)
    return array.as_numpy(span, span.ctypes.data + (array.location - low))


def write_array(array: ArrayGeometry, source: Any, stream: Any, *, blocking: bool = True) -> None:
    """Copy a NumPy array into an array of its shape and dtype on a device.

    Parameters are those of `read_array`. Bytes between the elements keep their values. Runs that
    are contiguous on the device are copied one by one. If they are many, the span is read, changed
    and written back after the device has finished its work.
    """
    device = array.device
    if (
        not array.is_read_only
        and _is_plain(array, source)
        and not is_recorded(stream)
        and (blocking or _outlives_copy(array, source))
    ):
        nbytes = source.nbytes
        start = address_of(source)
        device.copy_from_host(array.location, start, nbytes, stream, blocking=blocking)
        note_copy(device, "host_to_device", nbytes)
        array.note_use(stream)
        return
    _check_partner(array, source, "array")
    array.check_writable()
    if source.size == 0:
        return
    shape, strides, size = array.shape, array.strides, array.itemsize
    is_one = is_dense(shape, strides, size)
    if is_one or not device.shares_host_memory:
        packed = as_strided_like(source, strides) if is_one else np.ascontiguousarray(source)
        left, right = (array.location, strides), (packed.ctypes.data, packed.strides)
        pieces = copy_pieces(shape, size, left, right)
        if pieces is not None:
            _copy(array, packed, pieces, stream, blocking, to_host=False)
            array.note_use(stream)
            return
    _refuse_recording(stream, "a copy into many small pieces")
    if device.shares_host_memory:
        array.as_numpy(None)[...] = source
    else:
        device.synchronize()
        changed = host_copy(array, stream)
        changed[...] = source
        low, high = byte_bounds(array.location, shape, strides, size)
        on_host = changed.ctypes.data - (array.location - low)
        device.copy_from_host(low, on_host, high - low, stream)
        note_copy(device, "host_to_device", high - low)
    array.note_use(stream)


def _copy(
    array: ArrayGeometry,
    host: np.ndarray[Any, Any],
    pieces: Pieces,
    stream: Any,
    blocking: bool,
    *,
    to_host: bool,
) -> None:
    """Copy contiguous pieces between the host and a device."""
    device = array.device
    copy = device.copy_to_host if to_host else device.copy_from_host
    direction = "to" if to_host else "from"
    nbytes = sum(size for _, _, size in pieces)

    def run() -> None:
        for to, come_from, size in pieces:
            copy(to, come_from, size, stream, blocking=blocking)

    if blocking:
        _refuse_recording(stream, f"a copy {direction} the host that waits")
        run()
    else:
        put(stream, f"copy {nbytes} bytes {direction} the host", run, host, array)
        if not device.is_synchronous:
            keep_until_done(device, stream, host, array)
    note_copy(device, "device_to_host" if to_host else "host_to_device", nbytes)


def _is_plain(array: ArrayGeometry, host: Any) -> bool:
    """Return whether the same bytes, one after the other, are the elements of both."""
    return (
        isinstance(host, np.ndarray)
        and array.strides == host.strides
        and array.shape == host.shape
        and array.layout != "A"
        and array.dtype == host.dtype
        and not array.is_closed
        and host.nbytes > 0
    )


def _outlives_copy(array: ArrayGeometry, host: np.ndarray[Any, Any]) -> bool:
    """Return whether neither memory is freed before what is in a stream has used it.

    A pool orders what comes back after its uses, and page-locked memory waits for all work on its
    device. Other memory has to be kept alive.
    """
    device = array.device
    if device.is_synchronous:  # where copies are done when they return
        return True
    base: Any = host.base
    if isinstance(base, np.ndarray):  # of which a view was taken; NumPy makes no longer chains
        base = base.base
    owner = base.owner if type(base) is HostMemory else None
    return (
        type(owner) is SharedMemory
        and owner.device is device
        and type(array._owner) in (PooledBuffer, SharedMemory)
    )


def _check_partner(array: ArrayGeometry, host: Any, name: str) -> None:
    if not isinstance(host, np.ndarray):
        raise ArgumentTypeError(f"{name} is {a_type(host)}", limit="It must be a NumPy array")
    if host.shape != array.shape or host.dtype != array.dtype:
        remedy = "Make one with np.empty(array.shape, array.dtype)"
        if name != "out":
            fits = f"Convert it: {name}.astype(np.{array.dtype})"
            remedy = fits if host.shape == array.shape else "Pass an array of that shape"
        raise ArgumentValueError(
            f"{name} has shape {host.shape} and dtype {host.dtype}; the device array has "
            f"shape {array.shape} and dtype {array.dtype}",
            value=host,
            remedy=remedy,
        )


def _refuse_recording(stream: Any, what: str) -> None:
    if is_recorded(stream):
        raise GraphError(
            f"{what} cannot be captured in a stream of {stream.device}",
            limit="A capture takes asynchronous copies (blocking=False) of contiguous arrays",
            remedy="Copy with blocking=False between contiguous arrays, or before the capture",
        )


# --------------------------------------------------------------------------- on a device


def plan_copy_pieces(
    destination: ArrayGeometry, source: ArrayGeometry, max_count: int = MAX_RUNS
) -> Pieces | None:
    """Plan a copy between two arrays of one shape; see `copy_pieces`."""
    if destination.strides == source.strides and source.layout != "A":  # as most are
        return [(destination.location, source.location, source.nbytes)]
    left, right = (destination.location, destination.strides), (source.location, source.strides)
    return copy_pieces(source.shape, source.itemsize, left, right, max_count)


#: Bytes that a device fills memory with.
_PATTERN_LENGTHS = (1, 2, 4, 8, 16)


def fill_array(array: ArrayGeometry, element: np.ndarray[Any, Any], stream: Any) -> None:
    """Set every element of an array on a device to one value, in the stream's order.

    Parameters are those of `read_array`, `element` a NumPy array of rank 0. Nothing is copied from
    the host unless the array is strided in many small pieces.
    """
    if array.size == 0:
        return
    device = array.device
    pieces: Pieces | None
    if array.layout != "A":  # as most are
        start = array.location
        pieces = [(start, start, array.nbytes)]
    else:
        pieces = plan_copy_pieces(array, array, 1 if device.shares_host_memory else MAX_RUNS)
    pattern = element.tobytes()
    pattern = _shortest(pattern) if any(pattern) else b"\0"
    # A record's pattern may be longer than those that devices fill with, or have an odd length.
    if pieces is None or len(pattern) not in _PATTERN_LENGTHS:
        write_array(array, np.broadcast_to(element, array.shape), stream)
        return

    def run() -> None:
        for start, _, nbytes in pieces:
            device.fill(start, pattern, nbytes // len(pattern), stream)

    if stream is None:  # as mostly, and never recorded
        run()
    else:
        put(stream, f"fill {array.nbytes} bytes", run, array)
    array.note_use(stream)


def _shortest(pattern: bytes) -> bytes:
    """Return the shortest pattern that gives the same bytes when it is repeated."""
    while len(pattern) % 2 == 0 and pattern[: len(pattern) // 2] == pattern[len(pattern) // 2 :]:
        pattern = pattern[: len(pattern) // 2]
    return pattern
