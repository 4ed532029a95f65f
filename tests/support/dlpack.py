"""Producers of DLPack with elements that NumPy does not export."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from kerneldsl.memory import dlpack

__all__ = ["FourBits", "Relabelled"]

_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Relabelled:
    """An array whose elements are said to be of a type of DLPack's.

    Parameters
    ----------
    array : ndarray
        The memory.
    code, bits : int
        The type.
    """

    def __init__(self, array: np.ndarray, code: int, bits: int) -> None:
        self._array, self._type = array, (code, bits)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._array.__dlpack__()
        pointer = _get_pointer(capsule, b"dltensor")
        dtype = dlpack._DLManagedTensor.from_address(pointer).dl_tensor.dtype
        dtype.code, dtype.bits = self._type
        return capsule


class FourBits(Relabelled):
    """Three integers of 4 bits, which DLPack can describe, and no kernel takes."""

    def __init__(self) -> None:
        super().__init__(np.zeros(3, np.int8), 0, 4)
