"""Arrays for kernels in memory that the host uses, too: mapped, locked or managed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.contract import DeviceLike
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import a_type
from kerneldsl.memory.arrays import DeviceArray, make_array
from kerneldsl.memory.creation import empty
from kerneldsl.memory.host_memory import SharedMemory
from kerneldsl.memory.pools import PooledBuffer, checked_size
from kerneldsl.memory.strided import (
    HostMemory,
    Order,
    Shape,
    byte_bounds,
    checked_dtype,
    checked_order,
    checked_shape,
    contiguous_strides,
)
from kerneldsl.placement.devices import chosen_device, current_device
from kerneldsl.utilities.tracebacks import shorten_errors

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["locked_view", "managed_empty", "mapped_view"]


@shorten_errors
def mapped_view(array: np.ndarray[Any, Any]) -> DeviceArray:
    """Return an array for kernels over mapped host memory, without a copy.

    Parameters
    ----------
    array : ndarray
        From ``pinned_empty(…, mapped=True)`` or ``pinned_copy(…, mapped=True)``, or a view of one.

    Returns
    -------
    DeviceArray
        An array over the same memory. Wait for the device before the host reads results.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If the array is not in mapped page-locked memory.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> host = kd.pinned_empty(3, mapped=True)
    >>> kd.mapped_view(host).fill(2)
    >>> kd.synchronize()
    >>> host
    array([2., 2., 2.])
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(
            f"{a_type(array)} has no mapped view", limit="It must be a NumPy array"
        )
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    owner = base.owner if isinstance(base, HostMemory) else None
    start = array.ctypes.data
    is_read_only = not array.flags.writeable
    if isinstance(owner, PooledBuffer) and owner.device.shares_host_memory:
        pointer, device = start, owner.device
    elif isinstance(owner, SharedMemory) and owner.buffer.pointer and not owner.is_managed:
        pointer, device = owner.buffer.pointer + start - owner.buffer.host_pointer, owner.device
    else:
        raise ArgumentValueError(
            "the array is not in mapped page-locked memory",
            value=array,
            limit="Kernels reach host memory only if it was mapped for them",
            remedy="Make it with kd.pinned_empty(shape, dtype, mapped=True)",
        )
    return make_array(device, pointer, array.shape, array.strides, array.dtype, owner, is_read_only)


def locked_view(array: np.ndarray[Any, Any]) -> DeviceArray:
    """Lock the pages of a NumPy array, and return an array for kernels that unlocks them."""
    device, pointer = current_device(), array.ctypes.data
    owner: Any = array
    if array.nbytes and not device.shares_host_memory:
        low, high = byte_bounds(pointer, array.shape, array.strides, array.itemsize)
        owner = SharedMemory(device, "pinned", lambda: device.lock_pages(low, high - low, array))
        pointer = owner.buffer.pointer + pointer - low
    is_read_only = not array.flags.writeable
    return make_array(device, pointer, array.shape, array.strides, array.dtype, owner, is_read_only)


@shorten_errors
def managed_empty(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
) -> DeviceArray:
    """Make an array in managed memory; the host accesses it by ``array.host_view()``.

    Parameters
    ----------
    shape, dtype, order
        As for `kerneldsl.empty`.
    device : str or Device, optional
        The device that mostly uses it; by default the current one.

    Returns
    -------
    DeviceArray
        Its pages migrate to the side that uses them, with a page fault each. Data that one side
        uses at a time is better copied. On the CPU it is an ordinary array.

    Raises
    ------
    DeviceMemoryError
        If the device has no managed memory.
    OutOfMemoryError
        If there is no memory left.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> with kd.use("cpu"):
    ...     x = kd.managed_empty(3)
    >>> x.fill(1)
    >>> x.host_view()
    array([1., 1., 1.])
    """
    device, extents, element = chosen_device(device), checked_shape(shape), checked_dtype(dtype)
    order = checked_order(order)
    nbytes = checked_size(device, extents, element.itemsize)
    if device.shares_host_memory or nbytes == 0:
        return empty(extents, element, order=order, device=device)
    owner = SharedMemory(device, "managed", lambda: device.allocate_managed(nbytes))
    strides = contiguous_strides(extents, element.itemsize, order)
    return make_array(device, owner.buffer.pointer, extents, strides, element, owner)
