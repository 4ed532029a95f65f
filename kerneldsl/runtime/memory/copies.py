"""Copies between any two arrays: of the host, of one device, of two devices.

Copies are ordered by streams and wait for nothing on the host, but for host memory that takes part:
by default that may be read or changed when the copy returns.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, DeviceMismatchError
from kerneldsl.runtime.memory.strided import (
    byte_bounds,
    host_view,
    is_dense,
    offsets,
    run_axis,
    same_memory_order,
)
from kerneldsl.runtime.memory.transfer import MAX_RUNS
from kerneldsl.runtime.placement import place_of
from kerneldsl.runtime.statistics import note_copy
from kerneldsl.runtime.streams.current import stream_of
from kerneldsl.runtime.streams.order import put
from kerneldsl.target import Device, DeviceLike

if TYPE_CHECKING:
    from kerneldsl.runtime.memory.arrays import DeviceArray

__all__ = ["can_access_peer", "copy", "copy_between", "enable_peer_access"]


def copy(destination: Any, source: Any, stream: Any = None, *, blocking: bool = True) -> None:
    """Copy the elements of one array into another of the same shape and dtype.

    Parameters
    ----------
    destination, source : DeviceArray or ndarray
        Both may be on the host, on one device, or on two. Contiguous arrays are copied in one
        piece; strided ones in pieces, and where those are many, over the host.
    stream : optional
        Stream in whose order the copy is made: of the device that takes part, or of either of two.
        By default the current stream; between the default streams of two devices the copy waits for
        both, and both wait for it.
    blocking : bool, optional
        Whether to return only when host memory that takes part may be read or changed. With
        ``False`` it must be left alone until the stream has come so far; only page-locked memory
        (`kerneldsl.pinned_empty`) is copied while the host goes on. Copies between devices never
        hold up the host.

    Raises
    ------
    ArgumentTypeError
        If one of the two is neither a NumPy nor a device array.
    ArgumentValueError
        If shapes or dtypes differ.
    ReadOnlyArrayError
        If the destination is read-only.
    ClosedResourceError
        If one of the two has been closed.
    GraphError
        In a stream that is recorded, for a copy that waits or needs the host.
    """
    from kerneldsl.runtime.memory.arrays import DeviceArray

    for name, array in (("destination", destination), ("source", source)):
        if not isinstance(array, DeviceArray | np.ndarray):
            raise ArgumentTypeError(
                f"the {name} is a {type(array).__qualname__}",
                value=array,
                limit="copy() takes NumPy and device arrays",
                remedy="Take arrays of other libraries over with kd.as_array(array)",
            )
    if destination.shape != source.shape or destination.dtype != source.dtype:
        raise ArgumentValueError(
            f"the destination has shape {destination.shape} and dtype {destination.dtype}; the "
            f"source has shape {source.shape} and dtype {source.dtype}",
            value=source,
            limit="copy() neither converts nor broadcasts",
            remedy="Copy to an array made with kd.empty_like(source)",
        )
    if isinstance(destination, DeviceArray):
        if isinstance(source, DeviceArray):
            copy_between(destination, source, stream)
        else:
            destination.copy_from_host(source, stream, blocking=blocking)
    elif isinstance(source, DeviceArray):
        source.copy_to_host(destination, stream, blocking=blocking)
    else:
        np.copyto(destination, source)


def copy_between(destination: DeviceArray, source: DeviceArray, stream: Any = None) -> None:
    """Copy from one device array to another of the same shape and dtype."""
    destination.check_writable()
    source.check_open()
    if source.size == 0:
        return
    if destination.place is source.place:
        _copy_on_device(destination, source, stream_of(source.place, stream))
    elif destination.place.target == source.place.target:
        _copy_to_peer(destination, source, stream)
    else:
        over = [array.place for array in (source, destination) if not array.place.is_host]
        ours = _stream_of_either(stream, *over)
        host = source.copy_to_host(stream=ours if source.place is over[0] else None)
        destination.copy_from_host(host, ours if destination.place is over[0] else None)


def _copy_on_device(destination: DeviceArray, source: DeviceArray, stream: Any) -> None:
    place, nbytes = source.place, source.nbytes
    if place.is_host:
        held = (
            host_view(destination.pointer, source.shape, destination.strides, source.dtype, None),
            host_view(source.pointer, source.shape, source.strides, source.dtype, None),
        )
        put(
            stream,
            f"copy {nbytes} bytes on {place}",
            lambda: np.copyto(*held),
            destination,
            source,
        )
    else:
        pieces = _pieces(destination, source)
        if pieces is None:
            host = source.copy_to_host(stream=stream)
            destination.copy_from_host(host, stream)
            return
        (to, come_from, size), *rest = pieces

        def run() -> None:
            for piece in pieces:
                place.copy_on_device(*piece, stream)

        if rest or abs(to - come_from) >= size:
            put(stream, f"copy {nbytes} bytes on {place}", run, destination, source)
        elif to != come_from:
            _copy_overlapping(destination, to, come_from, size, stream)
        destination.note_use(stream)
        source.note_use(stream)
    note_copy(place, "device_to_device", nbytes)


def _pieces(destination: DeviceArray, source: DeviceArray) -> list[tuple[int, int, int]] | None:
    """Destination, source and size of contiguous pieces; ``None`` for many, or ones that overlap.

    One piece alone may overlap itself.
    """
    left, right = destination.strides, source.strides
    if left == right and source.layout != "A":  # as most are: spare them the arithmetic
        return [(destination.pointer, source.pointer, source.nbytes)]
    shape, size = source.shape, source.itemsize
    bounds = [byte_bounds(a.pointer, shape, a.strides, size) for a in (destination, source)]
    if is_dense(shape, left, size) and same_memory_order(shape, left, right):
        return [(bounds[0][0], bounds[1][0], bounds[0][1] - bounds[0][0])]
    axis = max(run_axis(shape, left, size), run_axis(shape, right, size))
    is_overlapping = bounds[0][0] < bounds[1][1] and bounds[1][0] < bounds[0][1]
    if math.prod(shape[:axis]) > MAX_RUNS or is_overlapping:
        return None
    run_bytes = math.prod(shape[axis:]) * size
    places = zip(offsets(shape[:axis], left), offsets(shape[:axis], right), strict=True)
    return [(destination.pointer + a, source.pointer + b, run_bytes) for a, b in places]


def _copy_overlapping(
    destination: DeviceArray, to: int, come_from: int, nbytes: int, stream: Any
) -> None:
    """Copy between ranges that overlap, by way of other memory of the device."""
    from kerneldsl.runtime.memory.pools import allocate

    place = destination.place
    between = allocate(place, nbytes, stream)

    def run() -> None:
        place.copy_on_device(between.pointer, come_from, nbytes, stream)
        place.copy_on_device(to, between.pointer, nbytes, stream)

    put(stream, f"copy {nbytes} bytes on {place}", run, destination, between)
    between.note_use(stream)


def _copy_to_peer(destination: DeviceArray, source: DeviceArray, stream: Any) -> None:
    place, peer = source.place, destination.place
    stream = _stream_of_either(stream, place, peer)
    pieces = _pieces(destination, source)
    if pieces is None:
        home = getattr(stream, "device", None)
        host = source.copy_to_host(stream=stream if home == place else None)
        destination.copy_from_host(host, stream if home == peer else None)
        return

    def run() -> None:
        for to, come_from, nbytes in pieces:
            place.copy_to_peer(come_from, peer, to, nbytes, stream)

    what = f"copy {source.nbytes} bytes from {place} to {peer}"
    put(stream, what, run, destination, source)
    destination.note_use(stream)  # without one, of the default streams, each on its own device
    source.note_use(stream)
    note_copy(place, "device_to_peer", source.nbytes)


def _stream_of_either(stream: Any, *places: Device) -> Any:
    """The stream that is meant, of whichever of some places it is."""
    if stream is None:
        found = (stream_of(place, None) for place in places)
        return next((s for s in found if s is not None), None)
    *others, last = places
    for place in others:
        try:
            return stream_of(place, stream)
        except DeviceMismatchError:
            continue
    return stream_of(last, stream)


# --------------------------------------------------------------------------- peers


def can_access_peer(device: DeviceLike, peer: DeviceLike) -> bool:
    """Whether kernels on a device can reach arrays of another one where they are.

    Parameters
    ----------
    device, peer : str or Device
        The two; a device can always reach its own memory.

    Notes
    -----
    Copies between devices need no such access: without it the driver takes them over the host.
    """
    place, other = place_of(device), place_of(peer)
    if place is other:
        return True
    if place.target != other.target:
        return False
    return place.can_access_peer(other)


def enable_peer_access(device: DeviceLike, peer: DeviceLike) -> None:
    """Let kernels on a device reach arrays of another one where they are, from now on.

    Copies between the two then go directly over their link. A second call is harmless.

    Parameters
    ----------
    device, peer : str or Device
        The device whose kernels, and the one whose memory.

    Raises
    ------
    DeviceMismatchError
        If the device cannot reach the other one.
    """
    place, other = place_of(device), place_of(peer)
    if place is other:
        return
    if not can_access_peer(place, other):
        raise DeviceMismatchError(
            f"{place} cannot reach the memory of {other}",
            value=str(other),
            limit="The two are not linked in a way that their driver supports",
            remedy="Copy the arrays: kd.copy(destination, source) takes them over the host",
        )
    place.enable_peer_access(other)
