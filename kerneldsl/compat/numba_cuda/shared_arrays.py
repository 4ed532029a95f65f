"""NumPy arrays in memory that the host and the device share: mapped and managed."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray
from kerneldsl.memory.arrays import DeviceArray

__all__ = ["ManagedNDArray", "MappedNDArray", "SharedNDArray"]


#: Attributes that these arrays take from the device array.
_OF_DEVICE = (
    "__cuda_array_interface__ copy_to_device copy_to_host device_ctypes_pointer gpu_data split"
)


class SharedNDArray(np.ndarray[Any, Any]):
    """A NumPy array in memory that kernels use too."""

    __cuda_ndarray__ = True
    __cuda_memory__ = True
    stream: Any = 0
    #: The array of the device over all of the memory, and where the host has it.
    whole: DeviceNDArray | None = None
    start: int = 0

    def __array_finalize__(self, parent: Any) -> None:
        self.whole, self.start = getattr(parent, "whole", None), getattr(parent, "start", 0)

    @classmethod
    def over(cls, whole: DeviceArray, host: np.ndarray[Any, Any], stream: Any = 0) -> Self:
        """Return the array over memory that is `whole` on the device, and `host` here."""
        made = host.view(cls)
        made.stream = stream
        made.whole, made.start = DeviceNDArray.over(whole), host.__array_interface__["data"][0]
        return made

    @property
    def on_device(self) -> DeviceNDArray:
        """Device array over these elements; a copy that NumPy made has its own memory."""
        if self.whole is None:
            raise TypeError("this array was copied to memory of the host alone")
        offset = self.__array_interface__["data"][0] - self.start
        if not 0 <= offset <= self.whole.nbytes:
            raise TypeError("this array was copied to memory of the host alone")
        made = self.whole._over(
            self.whole.location + offset, self.shape, self.strides, False, self.dtype
        )
        made.stream = self.stream
        return made

    def __getattr__(self, name: str) -> Any:
        if name not in _OF_DEVICE.split():
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.on_device, name)


class MappedNDArray(SharedNDArray):
    """A NumPy array in page-locked memory that is mapped for the device."""


class ManagedNDArray(SharedNDArray):
    """A NumPy array in managed memory."""
