"""Making device arrays: empty, filled, from NumPy, from other libraries."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, NUMPY_NAMES, numpy_dtype
from kerneldsl.language.kinds import Layout
from kerneldsl.runtime.memory.arrays import DeviceArray
from kerneldsl.runtime.memory.pools import allocate
from kerneldsl.runtime.memory.strided import contiguous_strides
from kerneldsl.runtime.placement import current_place, place_of
from kerneldsl.target import Device, DeviceLike

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "Order",
    "Shape",
    "as_array",
    "checked_dtype",
    "checked_shape",
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

Shape: TypeAlias = int | tuple[int, ...]
#: "C": the last axis is contiguous in memory; "F": the first.
Order: TypeAlias = Literal["C", "F"]


_KNOWN_DTYPES = frozenset(map(numpy_dtype, NUMPY_NAMES))


def _place(device: DeviceLike | None) -> Device:
    return current_place() if device is None else place_of(device)


def checked_shape(shape: Any) -> tuple[int, ...]:
    """The extents as ints; raises `ArgumentTypeError` or `ArgumentValueError` for other things."""
    if type(shape) is int and shape >= 0:
        return (shape,)
    try:
        extents = tuple(operator.index(n) for n in (shape if np.iterable(shape) else (shape,)))
    except TypeError:
        raise ArgumentTypeError(
            f"shape {shape!r} is not made of ints",
            value=shape,
            limit="A shape is an int or a tuple of ints",
            remedy="Use // where a division gives a float",
        ) from None
    if any(n < 0 for n in extents):
        raise ArgumentValueError(
            f"shape {extents} has a negative extent", value=extents, limit="Extents are 0 or more"
        )
    return extents


def checked_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype, if there are device arrays of it; raises `ArgumentTypeError` otherwise."""
    is_name = isinstance(dtype, str) and dtype in ELEMENT_TYPES
    found: np.dtype[Any] = numpy_dtype(dtype) if is_name else np.dtype(dtype)
    if found in _KNOWN_DTYPES:
        return found
    if found.name not in DTYPE_NAMES or not found.isnative:
        raise ArgumentTypeError(
            f"there are no device arrays of dtype {found}",
            value=found,
            limit=f"dtypes are {', '.join(DTYPE_NAMES)}",
        )
    return found


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
    place = _place(device)
    extents, element = checked_shape(shape), checked_dtype(dtype)
    size = element.itemsize
    for extent in extents:
        size *= extent
    buffer = allocate(place, size, stream)
    strides = contiguous_strides(extents, element.itemsize, order)
    layout: Layout | None = "C" if order == "C" else None
    return DeviceArray(place, buffer.pointer, extents, strides, element, buffer, layout=layout)


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
    element = np.asarray(fill_value).dtype if dtype is None else dtype
    array = empty(shape, element, order=order, device=device, stream=stream)
    array.fill(fill_value, stream)
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
    return full(shape, 0, dtype, order=order, device=device, stream=stream)


def ones(
    shape: Shape,
    dtype: npt.DTypeLike = np.float64,
    *,
    order: Order = "C",
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of ones. See `empty`."""
    return full(shape, 1, dtype, order=order, device=device, stream=stream)


def _like(array: Any, dtype: npt.DTypeLike | None, device: DeviceLike | None) -> dict[str, Any]:
    if not isinstance(array, DeviceArray):
        array = np.asanyarray(array)
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


def empty_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of another's shape, dtype and order, where that is. See `empty`."""
    return empty(**_like(array, dtype, device), stream=stream)


def zeros_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of zeros like another. See `empty_like`."""
    return zeros(**_like(array, dtype, device), stream=stream)


def ones_like(
    array: DeviceArray | npt.ArrayLike,
    dtype: npt.DTypeLike | None = None,
    *,
    device: DeviceLike | None = None,
    stream: Any = None,
) -> DeviceArray:
    """Make an array of ones like another. See `empty_like`."""
    return ones(**_like(array, dtype, device), stream=stream)


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
            device = current_place()
        copy = empty_like(array, device=device)
        from kerneldsl.runtime.memory.copies import copy_between

        copy_between(copy, array, stream)
        return copy
    source = np.asarray(array)
    copy = empty_like(source, device=device, stream=stream)
    copy.copy_from_host(source, stream)
    return copy


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
    from kerneldsl.runtime.memory import dlpack

    return dlpack.import_array(obj, stream=None)


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
    from kerneldsl.runtime.arguments import foreign

    if isinstance(obj, DeviceArray):
        return obj
    return foreign.as_device_array(obj)
