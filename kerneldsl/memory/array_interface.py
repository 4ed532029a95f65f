"""Arrays of other libraries, taken over without a copy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kerneldsl.contract import Device, MemoryType, names_default_stream
from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype
from kerneldsl.memory import dlpack
from kerneldsl.memory.arrays import DeviceArray
from kerneldsl.memory.forms import ArrayForm
from kerneldsl.memory.geometry import ArrayGeometry, sealed_code
from kerneldsl.memory.strided import contiguous_strides
from kerneldsl.memory.tensors import (
    aligned,
    cupy_geometry,
    element_of_tensor,
    is_cuda_tensor,
    is_cupy,
    stream_of_cupy,
    stream_of_torch,
    tensor_geometry,
)
from kerneldsl.placement.devices import device_of_memory
from kerneldsl.placement.registry import get_target, target_of_memory
from kerneldsl.streams.current import stream_of

__all__ = ["as_arrays", "from_cuda_array_interface", "has_protocol"]

_TYPESTRS = {row.typestr: name for name, row in ELEMENT_TYPES.items() if row.typestr}


#: Forms of arrays of torch and CuPy, by their dtype, shape, strides and device. Native code takes
#: the arrays of a form, once kernels know its kind.
_forms: dict[tuple[Any, ...], ArrayForm] = {}
_MAX_FORMS = 1024


def as_arrays(objects: Iterable[Any]) -> list[DeviceArray]:
    """Return arrays over the memory of foreign objects, ready for the current stream.

    Raises `ArgumentTypeError` if one shares its memory in no way, or has a dtype that kernels do
    not take.
    """
    found: list[DeviceArray] = []
    producers: dict[tuple[Device, int], None] = {}
    for each in objects:
        array: DeviceArray
        producer: int | None
        if isinstance(each, DeviceArray):  # numba.cuda's have other views and copies
            array = each if type(each) is DeviceArray else DeviceArray.over(each)
            producer = None
        elif is_cuda_tensor(each):
            array, producer = _array_of_tensor(each)
        elif is_cupy(each):
            array, producer = _array_of_cupy(each)
        elif _has_interface(each):
            geometry, producer = from_cuda_array_interface(each)
            array = DeviceArray.over(geometry)
        else:
            array, producer = DeviceArray.over(dlpack.import_array(each, stream=None)), None
        found.append(array)
        if producer is not None:
            producers[array.device, producer] = None
    for device, stream in producers:
        current = stream_of(device, None)
        is_same = current is None and names_default_stream(stream)
        if not (is_same or is_recorded(current)):
            device.wait_stream(current, stream)
    return found


def _array_of_tensor(value: Any) -> tuple[DeviceArray, int]:
    """Return the array that a CUDA tensor is, and the stream that torch works in."""
    element, index = element_of_tensor(value), value.device.index
    key = value.dtype, value.shape, value.stride(), device_of_memory(MemoryType.CUDA, index)
    form = _forms.get(key)
    if form is None:
        geometry, stream = tensor_geometry(value, element)
        return _first_of_form(key, geometry), stream
    pointer = aligned(value.data_ptr(), element)
    return _of_form(form, pointer, value), stream_of_torch(index)


def _array_of_cupy(value: Any) -> tuple[DeviceArray, int]:
    """Return the array that one of CuPy is, and the stream that CuPy works in."""
    memory = value.data
    device = device_of_memory(MemoryType.CUDA, memory.device_id)
    key = value.dtype, value.shape, value.strides, device
    form = _forms.get(key)
    if form is None:
        geometry, stream = cupy_geometry(value)
        return _first_of_form(key, geometry), stream
    return _of_form(form, aligned(memory.ptr, value.dtype), value), stream_of_cupy()


def _first_of_form(key: tuple[Any, ...], geometry: ArrayGeometry) -> DeviceArray:
    """Return a device array, and note its form."""
    array = DeviceArray.over(geometry)
    if len(_forms) >= _MAX_FORMS:
        _forms.clear()
    _forms[key] = ArrayForm(array)
    return array


def _of_form(form: ArrayForm, pointer: int, owner: Any) -> DeviceArray:
    """Return an array of a form, with its code if kernels know the kind by now."""
    model = form._model
    if model.code < 0:
        code = sealed_code(model)
        if code >= 0:
            model.seal(code)
    return form._at(pointer, owner, False)


def has_protocol(value: Any, name: str) -> bool:
    """Return whether an object, or its type, has a method of a protocol."""
    try:
        return hasattr(type(value), name) or hasattr(value, name)
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        return False


def _has_interface(value: Any) -> bool:
    """Return whether an object describes its memory; types may do so for CUDA memory alone."""
    name = "__cuda_array_interface__"
    try:
        if hasattr(value, name):
            return True
    except Exception:  # noqa: BLE001 -- the interface is read again, and the error told there
        return True
    return hasattr(type(value), name) and not has_protocol(value, "__dlpack__")


def from_cuda_array_interface(
    value: Any, interface: dict[str, Any] | None = None
) -> tuple[ArrayGeometry, int | None]:
    """Return the array that an object describes by ``__cuda_array_interface__``.

    With it the handle of the stream that the producer works in, where one must be waited for.
    `interface` is the description, if it was read already. Raises `ArgumentTypeError` if the
    array has a mask, or its data is not aligned.

    References
    ----------
    Numba documentation, "CUDA Array Interface (Version 3)".
    """
    try:
        if interface is None:
            interface = value.__cuda_array_interface__
        return _described_by(interface, value)
    except KernelError:
        raise
    except Exception as error:
        raise dlpack.protocol_error(value, "__cuda_array_interface__", error) from error


def _described_by(interface: dict[str, Any], value: Any) -> tuple[ArrayGeometry, int | None]:
    if interface.get("mask") is not None:
        raise ArgumentTypeError(
            "an array with a mask cannot be passed to a kernel",
            value=value,
            remedy="Fill the masked elements, or pass data and mask as two arrays",
        )
    dtype = _dtype_of(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides") or contiguous_strides(shape, dtype.itemsize)
    pointer, is_read_only = interface["data"]
    pointer = aligned(pointer or 0, dtype)
    target = get_target(target_of_memory(MemoryType.CUDA))
    index = target.device_of_pointer(pointer).index if pointer and target.devices() else 0
    device = device_of_memory(MemoryType.CUDA, index)
    array = ArrayGeometry(device, pointer, shape, tuple(strides), dtype, value, bool(is_read_only))
    return array, interface.get("stream")


def _dtype_of(typestr: str) -> np.dtype[Any]:
    name = _TYPESTRS.get(typestr)
    return np.dtype(typestr) if name is None else numpy_dtype(name)
