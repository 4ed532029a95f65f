"""Arguments of other libraries: torch, CuPy, and any library that supports their protocols."""

from __future__ import annotations

from typing import Any

from kerneldsl.contract import MemoryType
from kerneldsl.errors import ArgumentError, ArgumentTypeError
from kerneldsl.errors.values import a_type
from kerneldsl.launch.arguments.array_readers import read_device_array, read_ndarray
from kerneldsl.launch.arguments.binding import Binding, Reader, Refused
from kerneldsl.memory import dlpack
from kerneldsl.memory.array_interface import from_cuda_array_interface, has_protocol
from kerneldsl.memory.geometry import ArrayGeometry, sealed_code
from kerneldsl.memory.strided import host_view
from kerneldsl.memory.tensors import (
    cupy_geometry,
    element_of_tensor,
    is_cupy,
    is_tensor,
    strides_of_tensor,
    tensor_geometry,
)
from kerneldsl.placement.registry import built_in_targets

__all__ = ["find_reader"]


def find_reader(value: Any) -> Reader | None:
    """Return the reader of a foreign object's type, or ``None`` if it shares no memory."""
    if is_tensor(value):
        return _read_torch
    if is_cupy(value):
        return _read_cupy
    if has_protocol(value, "__cuda_array_interface__"):
        return _read_cuda_array_interface
    if has_protocol(value, "__dlpack__") and has_protocol(value, "__dlpack_device__"):
        return _read_dlpack
    return None


# --------------------------------------------------------------------------- torch


def _read_torch(value: Any, binding: Binding) -> int:
    try:
        element = element_of_tensor(value)
        entry = built_in_targets().get(value.device.type)
        if entry is None or not entry.memory:
            known = [name for name, each in built_in_targets().items() if each.memory]
            raise Refused(
                f"the tensor is on {value.device}",
                limit=f"Kernels take tensors on {' and '.join(known)}",
                remedy=f"Move it with tensor.to('{known[-1]}')",
            )
        if MemoryType.CPU in entry.memory:
            strides = strides_of_tensor(value, element)
            array = host_view(value.data_ptr(), tuple(value.shape), strides, element, value)
            binding.keep += (array,)
            return read_ndarray(array, binding)
        found, stream = tensor_geometry(value, element, binding.device)
    except ArgumentError as error:
        raise _refusal(error) from error
    binding.streams += (stream,)
    return _read(found, binding)


# --------------------------------------------------------------------------- CuPy


def _read_cupy(value: Any, binding: Binding) -> int:
    try:
        found, stream = cupy_geometry(value, binding.device)
    except ArgumentError as error:
        raise _refusal(error) from error
    binding.streams += (stream,)
    return _read(found, binding)


# --------------------------------------------------------------------------- both


def _read(array: ArrayGeometry, binding: Binding) -> int:
    """Read an array over another library's memory, which is rebuilt for each launch."""
    array.code = sealed_code(array)
    binding.keep += (array,)
    return read_device_array(array, binding)


def _refusal(error: ArgumentError) -> Refused:
    """Return an error of an array as one of an argument, which is not known yet."""
    return Refused(error.what, limit=error.limit, remedy=error.remedy, kind=type(error))


# --------------------------------------------------------------------------- protocols


def _read_dlpack(value: Any, binding: Binding) -> int:
    try:
        array = dlpack.import_array(value)
    except ArgumentTypeError as error:
        raise _refusal(error) from error
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
        raise _refusal(error) from error
    if stream is not None:
        binding.streams += (stream,)
    binding.keep += (array,)
    return read_device_array(array, binding)
