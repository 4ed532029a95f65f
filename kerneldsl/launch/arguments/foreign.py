"""Arguments of other libraries: torch, CuPy, and any library that supports their protocols."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from kerneldsl.contract import Device, MemoryType
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import a_type
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, ElementType, numpy_dtype
from kerneldsl.launch.arguments.array_readers import read_device_array, read_ndarray
from kerneldsl.launch.arguments.binding import Binding, Reader, Refused
from kerneldsl.memory import dlpack
from kerneldsl.memory.array_interface import from_cuda_array_interface, has_protocol
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import host_view
from kerneldsl.placement.devices import device_of_memory
from kerneldsl.placement.registry import built_in_targets

__all__ = ["find_reader"]

#: Element types as torch prints its dtypes.
_TORCH_DTYPES = {f"torch.{name}": row for name, row in ELEMENT_TYPES.items()}


def find_reader(value: Any) -> Reader | None:
    """Return the reader of a foreign object's type, or ``None`` if it shares no memory."""
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return _read_torch
    if cupy is not None and isinstance(value, getattr(cupy, "ndarray", ())):
        return _read_cupy
    if has_protocol(value, "__cuda_array_interface__"):
        return _read_cuda_array_interface
    if has_protocol(value, "__dlpack__") and has_protocol(value, "__dlpack_device__"):
        return _read_dlpack
    return None


# --------------------------------------------------------------------------- torch


def _read_torch(value: Any, binding: Binding) -> int:
    # A tensor's own methods cost a third of what its __cuda_array_interface__ does.
    row = _TORCH_DTYPES.get(str(value.dtype))
    if row is None:
        raise Refused(
            f"a tensor of dtype {value.dtype} cannot be passed to a kernel",
            limit=f"dtypes are {', '.join(DTYPE_NAMES)}",
            remedy="Convert it with tensor.to(torch.float32)",
        )
    if value.requires_grad:
        raise Refused(
            "the tensor requires a gradient, which a kernel does not record",
            remedy="Pass tensor.detach()",
            kind=ArgumentValueError,
        )
    if row.is_float or row.is_complex:
        _refuse_lazy(value, row)
    element = numpy_dtype(row.name)
    shape = tuple(value.shape)
    strides = tuple(step * element.itemsize for step in value.stride())
    entry = built_in_targets().get(value.device.type)
    if entry is None or not entry.memory:
        known = [name for name, each in built_in_targets().items() if each.memory]
        raise Refused(
            f"the tensor is on {value.device}",
            limit=f"Kernels take tensors on {' and '.join(known)}",
            remedy=f"Move it with tensor.to('{known[-1]}')",
        )
    if MemoryType.CPU in entry.memory:
        array = host_view(value.data_ptr(), shape, strides, element, value)
        binding.keep += (array,)
        return read_ndarray(array, binding)
    index = value.device.index
    torch = sys.modules["torch"]
    binding.streams += (torch.cuda.current_stream(index).cuda_stream,)
    device = _device_at(index, binding)
    pointer = _aligned(value.data_ptr(), element)
    return _read(ArrayGeometry(device, pointer, shape, strides, element, value), binding)


def _refuse_lazy(value: Any, row: ElementType) -> None:
    """Refuse a view with memory that holds other numbers than the tensor."""
    lazy = "neg" if value.is_neg() else "conj" if row.is_complex and value.is_conj() else None
    if lazy is not None:
        done = {"neg": "negated", "conj": "conjugated"}[lazy]
        raise Refused(
            f"the tensor is {done} lazily, so its memory holds other values",
            remedy=f"Pass tensor.resolve_{lazy}()",
            kind=ArgumentValueError,
        )


# --------------------------------------------------------------------------- CuPy


def _read_cupy(value: Any, binding: Binding) -> int:
    # What __cuda_array_interface__ leaves out is the device, which the driver would have to be
    # asked for; the array itself knows it.
    memory, dtype = value.data, value.dtype
    pointer = _aligned(memory.ptr, dtype)
    binding.streams += (sys.modules["cupy"].cuda.get_current_stream().ptr,)
    device = _device_at(memory.device_id, binding)
    return _read(ArrayGeometry(device, pointer, value.shape, value.strides, dtype, value), binding)


# --------------------------------------------------------------------------- both


#: Codes of kinds of arrays, by dtype, rank and layout.
_codes: dict[tuple[np.dtype[Any], int, str], int] = {}


def _read(array: ArrayGeometry, binding: Binding) -> int:
    """Read an array over another library's memory, which is rebuilt for each launch."""
    key = (array.dtype, array.ndim, array.layout)
    code = _codes.get(key)
    if code is not None:
        array.code = code
    binding.keep += (array,)
    code = _codes[key] = read_device_array(array, binding)
    return code


def _aligned(pointer: int, dtype: np.dtype[Any]) -> int:
    """Return the address of an array's first element."""
    if pointer % dtype.alignment:
        raise Refused(
            f"the data at {pointer:#x} is not aligned to {dtype.alignment} bytes",
            limit="A device reads an element at a multiple of its size",
            remedy="Copy the array",
        )
    return pointer


def _device_at(index: int, binding: Binding) -> Device:
    """Return the device with CUDA memory of an index, mostly that of the argument before."""
    device = binding.device
    if device is not None and device.index == index and device.memory_type is MemoryType.CUDA:
        return device
    return device_of_memory(MemoryType.CUDA, index)


# --------------------------------------------------------------------------- protocols


def _read_dlpack(value: Any, binding: Binding) -> int:
    try:
        array = dlpack.import_array(value)
    except ArgumentTypeError as error:
        raise Refused(error.what, limit=error.limit, remedy=error.remedy) from error
    if array.device.shares_host_memory:
        view = array.as_numpy(array)
        binding.keep += (view,)
        if array.is_read_only:
            view.flags.writeable = False
        return read_ndarray(view, binding)
    binding.streams += (1,)  # the producer has made the memory ready for the default stream
    binding.keep += (array,)
    return read_device_array(array, binding)


def _read_cuda_array_interface(value: Any, binding: Binding) -> int:
    try:
        interface = value.__cuda_array_interface__
    except AttributeError:  # a type that offers it for CUDA memory alone, and this is not
        if has_protocol(value, "__dlpack__"):
            return _read_dlpack(value, binding)
        raise Refused(f"{a_type(value)} cannot be passed to a kernel") from None
    try:
        array, stream = from_cuda_array_interface(value, interface)
    except ArgumentTypeError as error:
        raise Refused(error.what, limit=error.limit, remedy=error.remedy) from error
    if stream is not None:
        binding.streams += (stream,)
    binding.keep += (array,)
    return read_device_array(array, binding)
