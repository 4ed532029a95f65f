"""Copy between any two arrays: on the host, on one device, on two devices.

Streams order the copies. Only copies with host memory wait on the host, by default until that
memory may be read or changed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.contract import Device, DeviceLike
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, DeviceMismatchError
from kerneldsl.errors.values import a_type
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.pools import allocate
from kerneldsl.memory.strided import byte_bounds
from kerneldsl.memory.transfer import host_copy, plan_copy_pieces, read_array, write_array
from kerneldsl.placement.devices import device_of
from kerneldsl.statistics.collect import note_copy
from kerneldsl.streams.current import stream_of
from kerneldsl.streams.order import put
from kerneldsl.utilities.tracebacks import shorten_errors

__all__ = ["can_access_peer", "copy", "copy_between", "enable_peer_access"]


@shorten_errors
def copy(destination: Any, source: Any, stream: Any = None, *, blocking: bool = True) -> None:
    """Copy the elements of one array into another of the same shape and dtype.

    Parameters
    ----------
    destination, source : DeviceArray or ndarray
        Both may be on the host, on one device, or on two. Contiguous arrays are copied in one
        piece. Strided arrays are copied in pieces, or over the host if there are many.
    stream : optional
        Stream that orders the copy, of any device that takes part. By default the current one.
        Between the default streams of two devices, the copy waits for both, and both wait for it.
    blocking : bool, optional
        Whether to return only when host memory may be read or changed. With ``False`` it must not
        be used until the stream has reached the copy; only copies with page-locked memory
        (`kerneldsl.pinned_empty`) are asynchronous. Copies between devices never wait.

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

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> x, y = kd.to_device(np.arange(3)), np.empty(3, np.int64)
    >>> kd.copy(y, x)
    >>> y
    array([0, 1, 2])
    """
    for name, array in (("destination", destination), ("source", source)):
        if not isinstance(array, ArrayGeometry | np.ndarray):
            raise ArgumentTypeError(
                f"the {name} is {a_type(array)}",
                value=array,
                limit="copy() takes NumPy and device arrays",
                remedy="Wrap arrays of other libraries with kd.as_array(array)",
            )
    if destination.shape != source.shape or destination.dtype != source.dtype:
        raise ArgumentValueError(
            f"the destination has shape {destination.shape} and dtype {destination.dtype}; the "
            f"source has shape {source.shape} and dtype {source.dtype}",
            value=source,
            limit="copy() neither converts nor broadcasts",
            remedy="Copy to an array made with kd.empty_like(source)",
        )
    if isinstance(destination, ArrayGeometry):
        if isinstance(source, ArrayGeometry):
            copy_between(destination, source, stream)
        else:
            stream = stream_of(destination.device, stream)
            write_array(destination, source, stream, blocking=blocking)
    elif isinstance(source, ArrayGeometry):
        source.check_open()
        read_array(source, destination, stream_of(source.device, stream), blocking=blocking)
    else:
        _copy_on_host(destination, source)


def _copy_on_host(destination: np.ndarray[Any, Any], source: np.ndarray[Any, Any]) -> None:
    """Copy as if the whole source were read before the first write.

    NumPy copies overlapping one-dimensional arrays without a copy of the source, in a direction
    that is correct only for equal strides (seen with 2.4).
    """
    if destination.strides != source.strides and np.may_share_memory(destination, source):
        source = source.copy()
    np.copyto(destination, source)


def copy_between(destination: ArrayGeometry, source: ArrayGeometry, stream: Any = None) -> None:
    """Copy from one device array to another of the same shape and dtype."""
    destination.check_writable()
    source.check_open()
    device, peer, nbytes = source.device, destination.device, source.nbytes
    if nbytes == 0:
        return
    is_one = device is peer
    stream = stream_of(device, stream) if is_one else _stream_of_either(stream, device, peer)
    needed: tuple[Any, ...] = (destination, source)
    if is_one and device.shares_host_memory:
        held = destination.as_numpy(None), source.as_numpy(None)
        put(stream, f"copy {nbytes} bytes on {device}", lambda: _copy_on_host(*held), *needed)
        note_copy(device, "device_to_device", nbytes)
        return
    pieces = plan_copy_pieces(destination, source) if device.target == peer.target else None
    if pieces is None or (is_one and len(pieces) > 1 and _overlap(destination, source)):
        _copy_over_host(destination, source, stream)
        return
    (to, come_from, size), *rest = pieces
    if is_one and not rest and to < come_from + size and come_from < to + size:  # they overlap
        if to == come_from:
            return
        between = allocate(device, size, stream)
        pieces = [(between.pointer, come_from, size), (to, between.pointer, size)]
        needed += (between,)

    def run() -> None:
        for to, come_from, size in pieces:
            if is_one:
                device.copy_on_device(to, come_from, size, stream)
            else:
                device.copy_to_peer(come_from, peer, to, size, stream)

    where = f"on {device}" if is_one else f"from {device} to {peer}"
    put(stream, f"copy {nbytes} bytes {where}", run, *needed)
    for each in needed:
        each.note_use(stream)  # without one, of the default streams, each on its own device
    note_copy(device, "device_to_device" if is_one else "device_to_peer", nbytes)


def _overlap(one: ArrayGeometry, other: ArrayGeometry) -> bool:
    """Return whether the spans of two arrays of one device have bytes in common."""
    low, high = byte_bounds(one.location, one.shape, one.strides, one.itemsize)
    begin, end = byte_bounds(other.location, other.shape, other.strides, other.itemsize)
    return bool(max(low, begin) < min(high, end))


def _copy_over_host(destination: ArrayGeometry, source: ArrayGeometry, stream: Any) -> None:
    """Copy through host memory; the stream is of one of the two devices, or of both."""
    home = getattr(stream, "device", None)
    read, write = (
        stream if home in (None, array.device) else stream_of(array.device, None)
        for array in (source, destination)
    )
    write_array(destination, host_copy(source, read), write)


def _stream_of_either(stream: Any, *devices: Device) -> Any:
    """Return the stream for a copy between devices; it may be of any of them."""
    if stream is None:
        found = (stream_of(device, None) for device in devices)
        return next((s for s in found if s is not None), None)
    *others, last = [device for device in devices if not device.is_synchronous]
    for device in others:
        try:
            return stream_of(device, stream)
        except DeviceMismatchError:
            continue
    return stream_of(last, stream)


# --------------------------------------------------------------------------- peers


@shorten_errors
def can_access_peer(device: DeviceLike, peer: DeviceLike) -> bool:
    """Return whether kernels on a device can access arrays of another device directly.

    Parameters
    ----------
    device, peer : str or Device
        The two devices. A device can always access its own memory.

    Returns
    -------
    bool

    Notes
    -----
    Copies between devices need no such access: without it the driver copies over the host.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.can_access_peer("cpu", "cpu")
    True
    """
    device, other = device_of(device), device_of(peer)
    if device is other:
        return True
    if device.target != other.target:
        return False
    return device.can_access_peer(other)


@shorten_errors
def enable_peer_access(device: DeviceLike, peer: DeviceLike) -> None:
    """Let kernels on a device access arrays of another device directly, from now on.

    Copies between the two then use their direct link. A second call is harmless.

    Parameters
    ----------
    device, peer : str or Device
        The device of the kernels, and the device of the memory.

    Raises
    ------
    DeviceMismatchError
        If the device cannot access the other one.
    """
    device, other = device_of(device), device_of(peer)
    if device is other:
        return
    if not can_access_peer(device, other):
        raise DeviceMismatchError(
            f"{device} cannot reach the memory of {other}",
            value=str(other),
            limit="The two are not linked in a way that their driver supports",
            remedy="Copy the arrays: kd.copy(destination, source) takes them over the host",
        )
    device.enable_peer_access(other)
