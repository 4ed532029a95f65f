"""Readers of array arguments: NumPy's, and those over the memory of a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.contract import Device
from kerneldsl.errors import ArgumentValueError, DeviceMismatchError
from kerneldsl.language.element_types import DTYPE_NAMES, element_name
from kerneldsl.language.kinds import ArrayKind, Layout
from kerneldsl.launch.arguments.binding import Binding, Refused, code_of
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import address_of
from kerneldsl.utilities.formatting import format_count

__all__ = ["MAX_NDIM", "name_of", "read_device_array", "read_ndarray", "seal"]

#: Largest rank of an array argument.
MAX_NDIM = 8

# numpy.ndarray.flags.num: NPY_ARRAY_C_CONTIGUOUS and so on, NumPy C API, "Array flags".
_C, _F, _ALIGNED, _WRITEABLE = 0x1, 0x2, 0x100, 0x400

_array_codes: dict[tuple[np.dtype[Any], int, int, bool], int] = {}


def read_ndarray(value: np.ndarray[Any, Any], binding: Binding) -> int:
    """Read an array in host memory."""
    shape = value.shape
    flags = value.flags.num
    dtype = value.dtype
    # A dtype of aligned records equals one of packed records at the same places.
    key = (dtype, len(shape), flags & (_C | _F | _ALIGNED), dtype.isalignedstruct)
    code = _array_codes.get(key)
    if code is None:
        code = _array_codes[key] = _classify(*key[:3])
    values = binding.values
    binding.host.append((len(values), value))
    values.append(address_of(value))
    values += shape
    if not flags & (_C | _F):
        values += value.strides
    if not flags & _WRITEABLE:
        binding.read_only += (binding.host[-1][0],)
    return code


def _classify(dtype: np.dtype[Any], ndim: int, flags: int) -> int:
    name = name_of(dtype)
    if ndim > MAX_NDIM:
        raise Refused(
            f"the array has {format_count(ndim, 'dimension')}",
            limit=f"Kernels take arrays of up to {MAX_NDIM} dimensions",
            remedy="Reshape it",
        )
    if not flags & _ALIGNED:
        raise Refused(
            f"the {dtype} array is not aligned to {dtype.alignment} bytes",
            limit="Kernels take aligned arrays",
            remedy="Pass array.copy()",
            kind=ArgumentValueError,
        )
    layout: Layout = "C" if flags & _C else "F" if flags & _F else "A"
    return code_of(ArrayKind(name, ndim, layout))


def name_of(dtype: np.dtype[Any], what: str = "an array") -> str:
    """Return the name of the element type of the dtype of an argument.

    - raises `Refused` saying what to do instead, where kernels do not take the dtype.
    """
    name = element_name(dtype)
    if name is not None:
        return name
    from kerneldsl.errors.conversions import odd_dtype

    shown, limit, remedy = odd_dtype(dtype, DTYPE_NAMES)
    raise Refused(
        f"{what} of dtype {shown} cannot be passed to a kernel",
        limit=limit,
        remedy=remedy,
    )


def read_device_array(value: ArrayGeometry, binding: Binding) -> int:
    device = value.device
    if binding.device is not device:
        _claim(binding, device)
    code = value.code
    if code < 0:
        seal(value)
        code = value.code
    if value.is_read_only:
        binding.read_only += (len(binding.values),)
    binding.values += value.packed
    return code


def seal(value: ArrayGeometry) -> None:
    """Note once what is passed of a device array.

    - raises `ClosedResourceError` if it has been closed.
    - raises `Refused` if kernels do not take its dtype.
    """
    value.check_open()
    value.seal(code_of(ArrayKind(name_of(value.dtype), value.ndim, value.layout)))


def _claim(binding: Binding, device: Device) -> None:
    """Note that an argument lives on a device.

    - raises `Refused` if another one lives elsewhere.
    """
    if binding.device is None:
        binding.device = device
    elif binding.device is not device:
        raise Refused(
            f"it is on {device}, and an argument before it on {binding.device}",
            limit="All device arrays of a launch must be on one device",
            remedy="Copy it over the host: kd.to_device(array.copy_to_host())",
            kind=DeviceMismatchError,
        )
