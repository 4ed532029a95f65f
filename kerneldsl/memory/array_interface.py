"""Arrays of other libraries by ``__cuda_array_interface__``, taken over without a copy."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.contract import MemoryType
from kerneldsl.contract.streams import is_recorded
from kerneldsl.errors import ArgumentTypeError, KernelError
from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype
from kerneldsl.memory import dlpack
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import contiguous_strides
from kerneldsl.memory.tensors import (
    aligned,
    cupy_geometry,
    element_of_tensor,
    is_cuda_tensor,
    is_cupy,
    tensor_geometry,
)
from kerneldsl.placement.devices import device_of_memory
from kerneldsl.placement.registry import get_target, target_of_memory
from kerneldsl.streams.current import stream_of

__all__ = ["as_geometry", "from_cuda_array_interface", "has_protocol"]

_TYPESTRS = {row.typestr: name for name, row in ELEMENT_TYPES.items() if row.typestr}


def as_geometry(obj: Any) -> ArrayGeometry:
    """Return the array that a foreign object is, ready for the current stream.

    Raises `ArgumentTypeError` if it shares its memory in no way, or has a dtype that kernels do not
    take.
    """
    producer: int | None
    if is_cuda_tensor(obj):
        array, producer = tensor_geometry(obj, element_of_tensor(obj))
    elif is_cupy(obj):
        array, producer = cupy_geometry(obj)
    elif _has_interface(obj):
        array, producer = from_cuda_array_interface(obj)
    else:
        return dlpack.import_array(obj, stream=None)
    current = stream_of(array.device, None)
    if producer is not None and not is_recorded(current):
        array.device.wait_stream(current, producer)
    return array


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
