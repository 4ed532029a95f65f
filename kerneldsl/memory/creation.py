"""Making device arrays: empty, filled, from NumPy, from other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.contract import DeviceLike
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, KernelError
from kerneldsl.errors.values import a_type
from kerneldsl.memory.arrays import DeviceArray, make_array, new_array
from kerneldsl.memory.pools import PooledBuffer, checked_size
from kerneldsl.memory.shared_memory import SharedMemory
from kerneldsl.memory.strided import (
    HostMemory,
    Order,
    Shape,
    checked_dtype,
    checked_order,
    checked_shape,
    contiguous_strides,
    read_host_array,
)
from kerneldsl.placement.devices import chosen_device, current_device
from kerneldsl.utilities.tracebacks import shorten, shorten_errors

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "as_array",
    "empty",
    "empty_like",
    "from_dlpack",
    "full",
    "full_like",
    "managed_empty",
    "mapped_view",
    "ones",
    "ones_like",
    "to_device",
    "zeros",
    "zeros_like",
]


# What programs call often shortens its errors itself: a try costs nothing where none is raised.
def empty(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array whose elements have no particular value.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    dtype : dtype, optional
        Of an element: float64 by default, as NumPy's.
    order : {"C", "F"}, optional
        Which axis is contiguous: the last or the first.
    device : str or Device, optional
        Where; by default where kernels run now (:class:`kerneldsl.use`).
    stream : optional
        Stream in whose order the memory is allocated; the default stream.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        For a dtype that kernels do not take, or a shape that is not made of ints >= 0 or names more
        bytes than there can be.
    OutOfMemoryError
        There is no room on the device, or below the limit of the active pool.
    """
    try:
        extents, element = checked_shape(shape), checked_dtype(dtype)
        return new_array(chosen_device(device), extents, element, checked_order(order), stream)
    except KernelError as error:
        shorten(error)
        raise


def full(
    shape: Shape,
    fill_value: Any,
    dtype: npt.DTypeLike | None = None,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of one value; its dtype by default is NumPy's for the value. See `empty`."""
    try:
        element = checked_dtype(read_host_array(fill_value).dtype if dtype is None else dtype)
        extents = checked_shape(shape)
        array = new_array(chosen_device(device), extents, element, checked_order(order), stream)
        array.fill(fill_value, stream)
    except KernelError as error:
        shorten(error)
        raise
    return array


def zeros(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of zeros. See `empty`."""
    try:
        return full(shape, 0, dtype, order=order, device=device, stream=stream)
    except KernelError as error:
        shorten(error)
        raise


def ones(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of ones. See `empty`."""
    try:
        return full(shape, 1, dtype, order=order, device=device, stream=stream)
    except KernelError as error:
        shorten(error)
        raise


def _like(array: Any, dtype: npt.DTypeLike | None, device: DeviceLike | None) -> dict[str, Any]:
    if not isinstance(array, DeviceArray):
        array = read_host_array(array)
        fortran = array.flags.fnc
    else:
        fortran = array.layout == "F"
        device = array.device if device is None else device
    return {
        "shape": array.shape,
        "dtype": array.dtype if dtype is None else dtype,
        "order": "F" if fortran else "C",
        "device": device,
    }


@shorten_errors
def empty_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of another's shape, dtype and order, where that is. See `empty`."""
    return empty(**_like(array, dtype, device), stream=stream)


@shorten_errors
def zeros_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of zeros like another. See `empty_like`."""
    return zeros(**_like(array, dtype, device), stream=stream)


@shorten_errors
def ones_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of ones like another. See `empty_like`."""
    return ones(**_like(array, dtype, device), stream=stream)


@shorten_errors
def full_like(
    array: DeviceArray | npt.ArrayLike,
    fill_value: Any,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of one value like another. See `empty_like`."""
    return full(fill_value=fill_value, **_like(array, dtype, device), stream=stream)


@shorten_errors
def to_device(
    array: DeviceArray | npt.ArrayLike, *, device: DeviceLike | None = None, stream: Any = None
) -> DeviceArray:
    """Copy an array to a device.

    Parameters
    ----------
    array : array_like
        A NumPy array or what NumPy makes one of, or a device array, which is copied without the
        host where it can be.
    device : str or Device, optional
        Where to; by default where kernels run now.
    stream : optional
        Stream in whose order the copy is made; the default stream.

    Returns
    -------
    DeviceArray
        Contiguous, in Fortran order if `array` is, else in C order.
    """
    if isinstance(array, DeviceArray):
        if device is None:
            device = current_device()
        copy = empty_like(array, device=device)
        from kerneldsl.memory.copies import copy_between

        copy_between(copy, array, stream)
        return copy
    source = read_host_array(array)
    copy = empty_like(source, device=device, stream=stream)
    copy.copy_from_host(source, stream)
    return copy


@shorten_errors
def from_dlpack(obj: Any) -> DeviceArray:
    """Take over an array of another library by DLPack, without a copy.

    Parameters
    ----------
    obj : object
        With ``__dlpack__`` and ``__dlpack_device__``, in host or CUDA memory.

    Returns
    -------
    DeviceArray
        Over the same memory, which it keeps alive; on ``cpu`` for host memory.

    Raises
    ------
    ArgumentTypeError
        If it is no such object, or its device or dtype is not one of ours.

    References
    ----------
    Python array API standard, "Data interchange mechanisms".
    """
    from kerneldsl.memory import dlpack

    return DeviceArray.over(dlpack.import_array(obj, stream=None))


@shorten_errors
def as_array(obj: Any) -> DeviceArray:
    """Take over any array without a copy: ours, DLPack's, or by ``__cuda_array_interface__``.

    Returns
    -------
    DeviceArray
        `obj` itself if it is one.

    Raises
    ------
    ArgumentTypeError
        If the object shares its memory in neither way.
    """
    from kerneldsl.memory.array_interface import as_geometry

    if isinstance(obj, DeviceArray):
        return obj
    return DeviceArray.over(as_geometry(obj))


# --------------------------------------------------------------------------- shared with the host


@shorten_errors
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


@shorten_errors
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
    device, extents, element = chosen_device(device), checked_shape(shape), checked_dtype(dtype)
    order = checked_order(order)
    nbytes = checked_size(device, extents, element.itemsize)
    if device.shares_host_memory or nbytes == 0:
        return empty(extents, element, order=order, device=device)
    owner = SharedMemory(device, "managed", lambda: device.allocate_managed(nbytes))
    strides = contiguous_strides(extents, element.itemsize, order)
    return make_array(device, owner.buffer.pointer, extents, strides, element, owner)
