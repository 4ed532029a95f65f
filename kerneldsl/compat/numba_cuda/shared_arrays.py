"""NumPy arrays in memory that the host and the device share: mapped and managed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from kerneldsl.compat.numba_cuda.arrays import DeviceNDArray
from kerneldsl.compat.numba_cuda.memory import MemoryPointer
from kerneldsl.memory.arrays import DeviceArray

__all__ = ["ManagedNDArray", "MappedNDArray", "SharedNDArray"]


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
        """The same elements for kernels; a copy that NumPy made has its own memory."""
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

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.on_device.__cuda_array_interface__

    @property
    def gpu_data(self) -> MemoryPointer:
        """The memory."""
        return self.on_device.gpu_data

    @property
    def device_ctypes_pointer(self) -> Any:
        """The address, as a ``ctypes.c_size_t``."""
        return self.gpu_data.device_ctypes_pointer

    def copy_to_host(self, ary: Any = None, stream: Any = 0) -> Any:
        """Copy the elements into a NumPy array, a new one by default."""
        return self.on_device.copy_to_host(ary, stream)

    def copy_to_device(self, ary: Any, stream: Any = 0) -> None:
        """Overwrite the elements with those of an array."""
        self.on_device.copy_to_device(ary, stream)

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceNDArray]:
        """Yield consecutive parts of `section` elements."""
        return self.on_device.split(section, stream)


class MappedNDArray(SharedNDArray):
    """A NumPy array in page-locked memory that is mapped for the device."""


class ManagedNDArray(SharedNDArray):
    """A NumPy array in managed memory."""
