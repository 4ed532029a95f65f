"""CUDA arrays of torch and CuPy by their own attributes, a third of the cost of a protocol.

They also say on which device the memory is, which ``__cuda_array_interface__`` leaves out.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from kerneldsl.contract import Device, MemoryType
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, ElementType, numpy_dtype
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.placement.devices import device_of_memory

__all__ = [
    "aligned",
    "cupy_geometry",
    "element_of_tensor",
    "is_cuda_tensor",
    "is_cupy",
    "is_tensor",
    "stream_of_cupy",
    "stream_of_torch",
    "strides_of_tensor",
    "tensor_geometry",
]

#: Element types as torch prints its dtypes.
_TORCH_DTYPES = {f"torch.{name}": row for name, row in ELEMENT_TYPES.items()}
#: Element types of torch's dtypes that were met, which are printed once.
_met: dict[Any, ElementType] = {}


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor of torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, getattr(torch, "Tensor", ()))


def is_cuda_tensor(value: Any) -> bool:
    """Return whether a value is a tensor in CUDA memory, with strides."""
    return is_tensor(value) and value.is_cuda and value.layout is sys.modules["torch"].strided


def is_cupy(value: Any) -> bool:
    """Return whether a value is an array of CuPy, and none of NumPy in its place."""
    cupy = sys.modules.get("cupy")
    is_theirs = cupy is not None and isinstance(value, getattr(cupy, "ndarray", ()))
    return is_theirs and not isinstance(value, np.ndarray)


def element_of_tensor(value: Any) -> np.dtype[Any]:
    """Return the dtype of a tensor.

    Raises `ArgumentTypeError` for a dtype that kernels do not take. Raises `ArgumentValueError` if
    the memory is not all of the tensor: it records a gradient, or is negated lazily.
    """
    row = _met.get(value.dtype) or _TORCH_DTYPES.get(str(value.dtype))
    if row is None:
        raise ArgumentTypeError(
            f"a tensor of dtype {value.dtype} cannot be passed to a kernel",
            value=value.dtype,
            limit=f"dtypes are {', '.join(DTYPE_NAMES)}",
            remedy="Convert it with tensor.to(torch.float32)",
        )
    _met[value.dtype] = row
    if value.requires_grad:
        raise ArgumentValueError(
            "the tensor requires a gradient, which a kernel does not record",
            remedy="Pass tensor.detach()",
        )
    if row.is_float or row.is_complex:
        _refuse_lazy(value, row)
    return numpy_dtype(row.name)


def _refuse_lazy(value: Any, row: ElementType) -> None:
    """Refuse a view with memory that holds other numbers than the tensor."""
    lazy = "neg" if value.is_neg() else "conj" if row.is_complex and value.is_conj() else None
    if lazy is not None:
        done = {"neg": "negated", "conj": "conjugated"}[lazy]
        raise ArgumentValueError(
            f"the tensor is {done} lazily, so its memory holds other values",
            remedy=f"Pass tensor.resolve_{lazy}()",
        )


def strides_of_tensor(value: Any, element: np.dtype[Any]) -> tuple[int, ...]:
    """Return the strides of a tensor in bytes."""
    return tuple(step * element.itemsize for step in value.stride())


def tensor_geometry(
    value: Any, element: np.dtype[Any], near: Device | None = None
) -> tuple[ArrayGeometry, int]:
    """Return the array that a CUDA tensor is, and the stream that torch works in.

    `near` is a device that it is probably on. Raises `ArgumentTypeError` if it is not aligned.
    """
    index = value.device.index
    stream = stream_of_torch(index)
    pointer = aligned(value.data_ptr(), element)
    shape, strides = tuple(value.shape), strides_of_tensor(value, element)
    return ArrayGeometry(_at(index, near), pointer, shape, strides, element, value), stream


def cupy_geometry(value: Any, near: Device | None = None) -> tuple[ArrayGeometry, int]:
    """Return the array that one of CuPy is, and the stream that CuPy works in.

    `near` is a device that it is probably on. Raises `ArgumentTypeError` if it is not aligned.
    """
    memory, dtype = value.data, value.dtype
    pointer = aligned(memory.ptr, dtype)
    device = _at(memory.device_id, near)
    geometry = ArrayGeometry(device, pointer, value.shape, value.strides, dtype, value)
    return geometry, stream_of_cupy()


def stream_of_torch(index: int) -> int:
    """Return the handle of the stream in which torch works on the CUDA device of an index."""
    torch: Any = sys.modules["torch"]
    # This is the function of torch's own compiler: the public one makes an object at each call.
    handle_of = getattr(getattr(torch, "_C", None), "_cuda_getCurrentRawStream", None)
    found: int = handle_of(index) if handle_of else torch.cuda.current_stream(index).cuda_stream
    return found


def stream_of_cupy() -> int:
    """Return the handle of the stream in which CuPy works on its current device."""
    found: int = sys.modules["cupy"].cuda.get_current_stream().ptr
    return found


def aligned(pointer: int, dtype: np.dtype[Any]) -> int:
    """Return the address of an array's first element.

    Raises `ArgumentTypeError` if it is not a multiple of the alignment of the dtype.
    """
    if pointer % max(dtype.alignment, 1):
        raise ArgumentTypeError(
            f"the data at {pointer:#x} is not aligned to {dtype.alignment} bytes",
            value=pointer,
            limit="A device reads an element at a multiple of its size",
            remedy="Copy the array",
        )
    return pointer


def _at(index: int, near: Device | None) -> Device:
    """Return the device with CUDA memory of an index."""
    if near is not None and near.index == index and near.memory_type is MemoryType.CUDA:
        return near
    return device_of_memory(MemoryType.CUDA, index)
