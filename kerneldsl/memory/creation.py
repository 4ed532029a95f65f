"""Make device arrays: empty, filled, from NumPy, from other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kerneldsl.contract import DeviceLike
from kerneldsl.errors import KernelError
from kerneldsl.memory.arrays import DeviceArray, new_array
from kerneldsl.memory.strided import (
    Order,
    Shape,
    checked_dtype,
    checked_order,
    checked_shape,
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
    "ones",
    "ones_like",
    "to_device",
    "zeros",
    "zeros_like",
]


# Functions that are called often shorten their errors themselves: a try costs nothing then.
def empty(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array with undefined elements.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    dtype : dtype, optional
        The dtype of the elements; by default float64, as in NumPy.
    order : {"C", "F"}, optional
        Which axis is contiguous: the last or the first.
    device : str or Device, optional
        The device; by default the current one (:class:`kerneldsl.use`).
    stream : optional
        Stream that orders the allocation; by default the current one.

    Returns
    -------
    DeviceArray

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        For a dtype that kernels do not support, a shape that does not consist of ints >= 0, or a
        size beyond 2**63 bytes.
    OutOfMemoryError
        If the device has no memory left, or the active pool reaches its limit.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> x = kd.empty((2, 3), "float32")
    >>> x.shape, x.nbytes
    ((2, 3), 24)
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
    """Make an array of one value.

    Parameters
    ----------
    shape, order, device, stream
        As for `empty`.
    fill_value : number
        The value.
    dtype : dtype, optional
        By default NumPy's dtype of the value.

    Returns
    -------
    DeviceArray

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.full(3, 2.5).copy_to_host()
    array([2.5, 2.5, 2.5])
    """
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
    """Make an array of zeros. The parameters are those of `empty`.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.zeros(3, "int32").copy_to_host()
    array([0, 0, 0], dtype=int32)
    """
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
    """Make an array of ones. The parameters are those of `empty`.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.ones((2, 2)).copy_to_host()
    array([[1., 1.],
           [1., 1.]])
    """
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
    """Make an array with undefined elements, like another array.

    Parameters
    ----------
    array : DeviceArray or array_like
        It determines the shape and the order. A device array determines the device, too.
    dtype : dtype, optional
        By default that of `array`.
    device : str or Device, optional
        By default that of `array`, or the current one.
    stream : optional
        As for `empty`.

    Returns
    -------
    DeviceArray

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.empty_like(kd.ones((2, 3), "int32")).dtype
    dtype('int32')
    """
    return empty(**_like(array, dtype, device), stream=stream)


@shorten_errors
def zeros_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of zeros, like another array. The parameters are those of `empty_like`.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.zeros_like([[1, 2], [3, 4]]).copy_to_host()
    array([[0, 0],
           [0, 0]])
    """
    return zeros(**_like(array, dtype, device), stream=stream)


@shorten_errors
def ones_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of ones, like another array. The parameters are those of `empty_like`.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.ones_like(kd.zeros(2)).copy_to_host()
    array([1., 1.])
    """
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
    """Make an array of one value, like another array; see `full` and `empty_like`.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> kd.full_like(kd.zeros(2), 7).copy_to_host()
    array([7., 7.])
    """
    return full(fill_value=fill_value, **_like(array, dtype, device), stream=stream)


@shorten_errors
def to_device(
    array: DeviceArray | npt.ArrayLike, *, device: DeviceLike | None = None, stream: Any = None
) -> DeviceArray:
    """Copy an array to a device.

    Parameters
    ----------
    array : array_like
        A NumPy array, an object that NumPy converts to one, or a device array. A device array is
        copied without the host if possible.
    device : str or Device, optional
        The device; by default the current one.
    stream : optional
        Stream that orders the copy; by default the current one.

    Returns
    -------
    DeviceArray
        Contiguous: in Fortran order if `array` is, else in C order.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> x = kd.to_device(np.arange(4))
    >>> x.copy_to_host()
    array([0, 1, 2, 3])
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
    """Wrap an array of another library by DLPack, without a copy.

    Parameters
    ----------
    obj : object
        An object with ``__dlpack__`` and ``__dlpack_device__``, in host or CUDA memory.

    Returns
    -------
    DeviceArray
        An array over the same memory, which it keeps alive. Host memory is on ``cpu``.

    Raises
    ------
    ArgumentTypeError
        If it does not support DLPack, or kerneldsl does not support its device or dtype.

    References
    ----------
    Python array API standard, "Data interchange mechanisms".

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> x = np.zeros(3)
    >>> kd.from_dlpack(x).fill(1)
    >>> x
    array([1., 1., 1.])
    """
    from kerneldsl.memory import dlpack

    return DeviceArray.over(dlpack.import_array(obj, stream=None))


@shorten_errors
def as_array(obj: Any) -> DeviceArray:
    """Wrap an array of any library without a copy, by DLPack or ``__cuda_array_interface__``.

    Parameters
    ----------
    obj : object
        An array.

    Returns
    -------
    DeviceArray
        `obj` itself if it is one.

    Raises
    ------
    ArgumentTypeError
        If the object supports neither protocol.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> x = kd.as_array(np.arange(3))
    >>> kd.as_array(x) is x
    True
    """
    from kerneldsl.memory.array_interface import as_arrays

    return obj if isinstance(obj, DeviceArray) else as_arrays((obj,))[0]
