"""Host memory that devices work with: page-locked and managed.

A copy from or to page-locked memory is made by the device itself while the host goes on; ordinary
memory has to pass through such memory of the driver's. Managed memory has one address everywhere
and moves to where it is used.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.runtime.memory.arrays import DeviceArray
from kerneldsl.runtime.memory.creation import Order, Shape, checked_dtype, checked_shape, empty
from kerneldsl.runtime.memory.pools import ABSURD_BYTES, PooledBuffer, allocate, size_error
from kerneldsl.runtime.memory.shared_memory import SharedMemory
from kerneldsl.runtime.memory.strided import HostMemory, contiguous_strides, host_view
from kerneldsl.runtime.placement import current_place, place_of
from kerneldsl.target import Device, DeviceLike

__all__ = ["managed_empty", "mapped_view", "pinned_copy", "pinned_empty"]


def _place(device: DeviceLike | None) -> Device:
    return current_place() if device is None else place_of(device)


def _size(place: Device, shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes of an array; raises `ArgumentValueError` for more than there are addresses."""
    size = math.prod(shape) * dtype.itemsize
    if size >= ABSURD_BYTES:
        raise size_error(place, size)
    return size


def pinned_empty(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    mapped: bool = False,
    write_combined: bool = False,
    device: DeviceLike | None = None,
) -> np.ndarray[Any, Any]:
    """Make a NumPy array in page-locked memory, which devices copy from and to by themselves.

    Parameters
    ----------
    shape, dtype, order
        As for `kerneldsl.empty`.
    mapped : bool, optional
        Let kernels reach the memory where it is: `mapped_view` gives the array for them. Every
        access goes over the bus, so this is for little data, or for what is read or written once.
    write_combined : bool, optional
        Bypass the processor's caches: faster to be copied from, very slow for the host to read. A
        target without such memory takes no notice.
    device : str or Device, optional
        Whose copies it is for; by default where kernels run now.

    Returns
    -------
    ndarray
        At least 256-byte aligned, contents undefined. The memory is given back when the last view
        of it is gone. On the CPU, where nothing is copied, it is an ordinary aligned array, and the
        two flags change nothing.

    Raises
    ------
    OutOfMemoryError
        The system has no page-locked memory left.
    ArgumentTypeError, ArgumentValueError
        For a dtype that kernels do not take, or a shape that is not made of ints >= 0.

    Notes
    -----
    Page-locked memory is taken from the whole machine, and making it costs milliseconds: make few
    such arrays and use them again.
    """
    place, extents, element = _place(device), checked_shape(shape), checked_dtype(dtype)
    nbytes = _size(place, extents, element)
    strides = contiguous_strides(extents, element.itemsize, order)
    if nbytes == 0:
        return np.empty(extents, element, order=order)
    if place.is_host:
        buffer = allocate(place, nbytes)
        buffer.is_shared = True  # closing a mapped view must leave the array its memory
        return host_view(buffer.pointer, extents, strides, element, buffer)
    owner = SharedMemory(
        place,
        "pinned",
        lambda: place.allocate_pinned(nbytes, is_mapped=mapped, is_write_combined=write_combined),
    )
    owner.is_shared = True
    return host_view(owner.buffer.host_pointer, extents, strides, element, owner)


def pinned_copy(
    array: npt.ArrayLike,
    *,
    mapped: bool = False,
    write_combined: bool = False,
    device: DeviceLike | None = None,
) -> np.ndarray[Any, Any]:
    """Make a copy of an array in page-locked memory; see `pinned_empty`."""
    source = np.asarray(array)
    copy = pinned_empty(
        source.shape,
        source.dtype,
        order="F" if source.flags.fnc else "C",
        mapped=mapped,
        write_combined=write_combined,
        device=device,
    )
    copy[...] = source
    return copy


def mapped_view(array: np.ndarray[Any, Any]) -> DeviceArray:
    """Return the array that kernels take to work on mapped host memory where it is.

    Parameters
    ----------
    array : ndarray
        From ``pinned_empty(…, mapped=True)`` or ``pinned_copy(…, mapped=True)``, or a view of one.

    Returns
    -------
    DeviceArray
        Over the same memory. Wait for the device before the host reads what kernels write.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If the array is not in mapped page-locked memory.
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(
            f"a {type(array).__qualname__} has no mapped view", limit="It must be a NumPy array"
        )
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    owner = base.owner if isinstance(base, HostMemory) else None
    start = array.ctypes.data
    is_read_only = not array.flags.writeable
    if isinstance(owner, PooledBuffer) and owner.place.is_host:
        pointer, place = start, owner.place
    elif isinstance(owner, SharedMemory) and owner.buffer.pointer and not owner.is_managed:
        pointer, place = owner.buffer.pointer + start - owner.buffer.host_pointer, owner.place
    else:
        raise ArgumentValueError(
            "the array is not in mapped page-locked memory",
            value=array,
            limit="Kernels reach host memory only if it was mapped for them",
            remedy="Make it with kd.pinned_empty(shape, dtype, mapped=True)",
        )
    return DeviceArray(place, pointer, array.shape, array.strides, array.dtype, owner, is_read_only)


def managed_empty(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
) -> DeviceArray:
    """Make an array in managed memory, which the host reaches by ``array.host_view()``.

    Parameters
    ----------
    shape, dtype, order
        As for `kerneldsl.empty`.
    device : str or Device, optional
        The device that mostly uses it; by default where kernels run now.

    Returns
    -------
    DeviceArray
        Pages of it move to where they are used, each time by a fault; what is used on one side at a
        time is better copied. On the CPU it is an ordinary array.

    Raises
    ------
    DeviceMemoryError
        The device has no managed memory.
    OutOfMemoryError
        There is no room.
    """
    place, extents, element = _place(device), checked_shape(shape), checked_dtype(dtype)
    nbytes = _size(place, extents, element)
    if place.is_host or nbytes == 0:
        return empty(extents, element, order=order, device=place)
    owner = SharedMemory(place, "managed", lambda: place.allocate_managed(nbytes))
    strides = contiguous_strides(extents, element.itemsize, order)
    return DeviceArray(place, owner.buffer.pointer, extents, strides, element, owner)
