"""Functions that make numba.cuda's arrays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kerneldsl.compat.numba_cuda.arrays import (
    DeviceNDArray,
    DeviceRecord,
    integers,
    is_cuda_ndarray,
    sentry_contiguous,
)
from kerneldsl.compat.numba_cuda.shared_arrays import ManagedNDArray, MappedNDArray
from kerneldsl.compat.numba_cuda.streams import external_stream
from kerneldsl.contract import MemoryType
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.creation import as_array
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.host_memory import pinned_empty
from kerneldsl.memory.shared_arrays import locked_view, managed_empty, mapped_view
from kerneldsl.memory.strided import byte_bounds, checked_dtype, contiguous_strides
from kerneldsl.placement.devices import current_device

__all__ = [
    "as_cuda_array",
    "auto_device",
    "device_array",
    "device_array_like",
    "from_cuda_array_interface",
    "is_cuda_array",
    "managed_array",
    "mapped",
    "mapped_array",
    "mapped_array_like",
    "pinned",
    "pinned_array",
    "pinned_array_like",
    "to_device",
]


def _dtype(dtype: Any) -> np.dtype[Any]:
    """Return NumPy's dtype of a dtype, or of a Numba type."""
    from kerneldsl.utilities.modules import is_of_numba

    if is_of_numba(dtype, "Type"):
        from kerneldsl.lowering.numba_internals.vocabulary import as_dtype

        return np.dtype(as_dtype(dtype))
    found = np.dtype(dtype)
    return checked_dtype(found) if found.hasobject else found  # others can be copied


def _shape(shape: Any) -> tuple[int, ...]:
    return integers((shape,) if isinstance(shape, (int, np.integer)) else shape, "shape")


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: Any = None) -> Any:
    """Copy a NumPy array or a record to the device, into `to` if that is given."""
    if to is not None:
        if copy:
            to.copy_to_device(obj, stream=stream)
        return to
    return auto_device(obj, stream=stream, copy=copy)[0]


def auto_device(
    obj: Any, stream: Any = 0, copy: bool = True, user_explicit: bool = False
) -> tuple[Any, bool]:
    """Return an array on the device, and whether it was made here."""
    if is_cuda_ndarray(obj):
        return obj, False
    if isinstance(obj, DeviceArray):
        return DeviceNDArray.over(obj), False
    if hasattr(obj, "__cuda_array_interface__"):
        return as_cuda_array(obj), False
    made: DeviceNDArray
    if isinstance(obj, np.void):
        host: Any = np.asarray(obj)
        made = DeviceRecord(_dtype(host.dtype), stream)
    else:
        host = np.asanyarray(obj)
        sentry_contiguous(host)
        made = DeviceNDArray(host.shape, host.strides, _dtype(host.dtype), stream)
    if copy:
        made.copy_to_device(host, stream)
    return made, True


def device_array(
    shape: Any, dtype: Any = np.float64, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceNDArray:
    """Make an array with undefined elements."""
    extents, element = _shape(shape), _dtype(dtype)
    steps = strides or contiguous_strides(extents, element.itemsize, "F" if order == "F" else "C")
    return DeviceNDArray(extents, steps, element, stream)


def _like(array: Any) -> dict[str, Any]:
    """Return shape, dtype and order of the contiguous array that is most like another."""
    flags = array.flags
    is_c, is_f = (flags[name] for name in ("C_CONTIGUOUS", "F_CONTIGUOUS"))
    found = {"shape": array.shape, "dtype": array.dtype, "order": "F" if is_f > is_c else "C"}
    if is_c or is_f or array.ndim <= 1:
        return found
    strides, step = [0] * array.ndim, array.dtype.itemsize
    for axis in sorted(range(array.ndim), key=lambda each: array.strides[each]):
        strides[axis] = step
        step *= array.shape[axis]
    return {**found, "strides": tuple(strides)}


def device_array_like(ary: Any, stream: Any = 0) -> DeviceNDArray:
    """Make an array with undefined elements, like another."""
    return device_array(**_like(ary), stream=stream)


def pinned_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    **options: Any,
) -> np.ndarray[Any, Any]:
    """Make a NumPy array in page-locked memory; `options` are those of the core's."""
    extents, element = _shape(shape), _dtype(dtype)
    if strides is None:
        return pinned_empty(extents, element, order="F" if order == "F" else "C", **options)
    _, end = byte_bounds(0, extents, tuple(strides), element.itemsize)
    memory = pinned_empty(int(end), np.uint8, **options)
    return np.ndarray(extents, element, memory, strides=strides)


def pinned_array_like(ary: Any) -> np.ndarray[Any, Any]:
    """Make a NumPy array in page-locked memory, like another."""
    return pinned_array(**_like(ary))


def mapped_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    portable: bool = False,
    wc: bool = False,
) -> MappedNDArray:
    """Make a NumPy array in page-locked memory that kernels use."""
    host = pinned_array(shape, dtype, strides, order, mapped=True, write_combined=wc)
    whole = host
    while isinstance(whole.base, np.ndarray):  # the memory, of which an array with gaps is a view
        whole = whole.base
    return MappedNDArray.over(mapped_view(whole), host, stream)


def mapped_array_like(
    ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False
) -> MappedNDArray:
    """Make a NumPy array in page-locked memory that kernels use, like another."""
    return mapped_array(**_like(ary), stream=stream, portable=portable, wc=wc)


def managed_array(
    shape: Any,
    dtype: Any = np.float64,
    strides: Any = None,
    order: str = "C",
    stream: Any = 0,
    attach_global: bool = True,
) -> ManagedNDArray:
    """Make a NumPy array in managed memory."""
    whole = managed_empty(_shape(shape), _dtype(dtype), order="F" if order == "F" else "C")
    return ManagedNDArray.over(whole, whole.host_view(), stream)


@contextlib.contextmanager
def pinned(*arylist: Any) -> Iterator[None]:
    """Lock the pages of arrays inside the block, so that copies of them need no waiting."""
    with _locked(arylist):
        yield


@contextlib.contextmanager
def mapped(*arylist: Any, stream: Any = 0) -> Iterator[Any]:
    """Lock the pages of host arrays in the block, and give kernels arrays over their memory."""
    with _locked(arylist) as views:
        made = [DeviceNDArray.over(each) for each in views]
        yield made[0] if len(made) == 1 else made


@contextlib.contextmanager
def _locked(arrays: Sequence[np.ndarray[Any, Any]]) -> Iterator[list[DeviceArray]]:
    """Give arrays for kernels over host memory; the device is done with them after the block."""
    views: list[DeviceArray] = []
    try:
        views.extend(map(locked_view, arrays))
        yield views
    finally:
        current_device().synchronize()
        for each in views:
            each.close()


def is_cuda_array(obj: Any) -> bool:
    """Return whether an object has ``__cuda_array_interface__``."""
    return hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceNDArray:
    """Return an array over the memory of an object with ``__cuda_array_interface__``."""
    if isinstance(obj, DeviceArray):
        return obj if isinstance(obj, DeviceNDArray) else DeviceNDArray.over(obj)
    interface = getattr(obj, "__cuda_array_interface__", None)
    if interface is None:
        raise TypeError("*obj* doesn't implement the cuda array interface.")
    return from_cuda_array_interface(interface, owner=obj, sync=sync)


class _Described:
    """Memory that an interface describes, kept alive with its owner."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__cuda_array_interface__ = interface
        self.owner = owner


def from_cuda_array_interface(
    desc: dict[str, Any], owner: Any = None, sync: bool = True
) -> DeviceNDArray:
    """Return an array over memory that an interface describes."""
    from numba import config

    if desc.get("mask") is not None:
        raise NotImplementedError("Masked arrays are not supported")
    stream = desc.get("stream")
    producer: Any = 0 if stream is None else external_stream(stream)
    if producer and sync and config.CUDA_ARRAY_INTERFACE_SYNC:
        producer.synchronize()
    device = current_device()
    if device.memory_type is MemoryType.CUDA:
        made = DeviceNDArray.over(as_array(_Described({**desc, "stream": None}, owner)))
    else:
        made = DeviceNDArray.over(_over_host(device, desc, owner))
    made.stream = producer
    return made


def _over_host(device: Any, desc: dict[str, Any], owner: Any) -> ArrayGeometry:
    """Return an array over memory of the host, which a target without CUDA describes so."""
    shape, element = tuple(desc["shape"]), np.dtype(desc["typestr"])
    strides = desc.get("strides") or contiguous_strides(shape, element.itemsize)
    pointer, is_read_only = desc["data"]
    location = pointer or 0
    return ArrayGeometry(device, location, shape, tuple(strides), element, owner, is_read_only)
