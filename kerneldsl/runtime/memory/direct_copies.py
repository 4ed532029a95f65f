"""The plain copy between a NumPy and a device array: one call of the target, and nothing else.

Most copies are of contiguous arrays of one dtype, and a small one takes as long as what Python does
around it. So the plain case is told from all others here, by comparisons alone. Everything else,
and every error, is left to the general way through :mod:`~kerneldsl.runtime.memory.transfer`: where
a function here answers ``False``, it has done nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.runtime.memory.device_memory import PooledBuffer
from kerneldsl.runtime.memory.shared_memory import SharedMemory
from kerneldsl.runtime.memory.strided import HostMemory, address_of
from kerneldsl.runtime.statistics import note_copy
from kerneldsl.runtime.streams.current import stream_of

if TYPE_CHECKING:
    from kerneldsl.runtime.memory.arrays import DeviceArray
    from kerneldsl.target import Device

__all__ = ["copied_from_host", "copied_to_host"]


def copied_from_host(array: DeviceArray, source: Any, stream: Any, blocking: bool) -> bool:
    """Copy a NumPy array to the device if that is a plain copy; say whether it was."""
    if array.is_read_only or not _is_plain(array, source):
        return False
    place, nbytes = array.place, source.nbytes
    stream = stream_of(place, stream)
    if _is_recorded(stream) or not (blocking or _lives_until_used(place, array, source)):
        return False
    place.copy_from_host(array.pointer, address_of(source), nbytes, stream, blocking=blocking)
    note_copy(place, "host_to_device", nbytes)
    _note_use(array, stream)
    return True


def copied_to_host(array: DeviceArray, out: Any, stream: Any, blocking: bool) -> bool:
    """Copy a device array to a NumPy array if that is a plain copy; say whether it was."""
    if not _is_plain(array, out) or not out.flags.writeable:
        return False
    place, nbytes = array.place, out.nbytes
    stream = stream_of(place, stream)
    if _is_recorded(stream) or not (blocking or _lives_until_used(place, array, out)):
        return False
    place.copy_to_host(address_of(out), array.pointer, nbytes, stream, blocking=blocking)
    note_copy(place, "device_to_host", nbytes)
    if not blocking:
        _note_use(array, stream)
    return True


def _is_plain(array: DeviceArray, host: Any) -> bool:
    """Whether the same bytes, one after the other, are the elements of both."""
    return (
        isinstance(host, np.ndarray)
        and array.strides == host.strides
        and array.shape == host.shape
        and array.layout != "A"
        and array.dtype == host.dtype
        and not array.is_closed
        and host.nbytes > 0
    )


def _is_recorded(stream: Any) -> bool:
    # A handle has no recording; to ask for the class of a stream takes far longer.
    return stream is not None and getattr(stream, "recording", None) is not None


def _lives_until_used(place: Device, array: DeviceArray, host: np.ndarray[Any, Any]) -> bool:
    """Whether neither memory is given back before what is in a stream of the place has used it.

    A pool orders what comes back behind its uses, and page-locked memory waits for all work on its
    device. Other memory has to be kept alive.
    """
    if place.is_host:  # where copies are done when they return
        return True
    base: Any = host.base
    if isinstance(base, np.ndarray):  # of which a view was taken; NumPy makes no longer chains
        base = base.base
    owner = base.owner if type(base) is HostMemory else None
    return (
        type(owner) is SharedMemory
        and owner.place is place
        and type(array._owner) in (PooledBuffer, SharedMemory)
    )


def _note_use(array: DeviceArray, stream: Any) -> None:
    """As `DeviceArray.note_use` does, for a stream that is not recorded."""
    owner = array._owner
    if type(owner) is PooledBuffer:
        owner.note_use(stream)
    else:
        array.note_use(stream)
