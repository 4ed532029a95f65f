"""A producer of DLPack whose elements no kernel takes."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from kerneldsl.memory import dlpack

__all__ = ["FourBits"]

_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class FourBits:
    """Three integers of 4 bits, which DLPack can describe."""

    def __init__(self) -> None:
        self._array = np.zeros(3, np.int8)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self._array.__dlpack__()
        pointer = _get_pointer(capsule, b"dltensor")
        dlpack._DLManagedTensor.from_address(pointer).dl_tensor.dtype.bits = 4
        return capsule
