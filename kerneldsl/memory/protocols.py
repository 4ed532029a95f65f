"""Protocols by which NumPy and other libraries access device arrays.

References
----------
NumPy, "The array interface protocol", version 3; Numba, "CUDA Array Interface", version 3; the
array API standard, "Data interchange mechanisms".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.contract import MemoryType
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import read_dtype
from kerneldsl.streams.current import stream_of
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayProtocols"]

#: The number by which the CUDA Array Interface names the legacy default stream.
_LEGACY_DEFAULT_STREAM = 1


@shorten_errors_of()
class ArrayProtocols(ArrayGeometry):
    """Interfaces of device arrays that other libraries read."""

    __slots__ = ()

    def host_view(self) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the same memory, after the work on the device has finished.

        Call `kerneldsl.synchronize` before reading what later launches write.

        - raises `ArgumentTypeError` if the host cannot access the memory.

        Examples
        --------
        >>> import kerneldsl as kd
        >>> with kd.use("cpu"):
        ...     x = kd.ones(2)
        >>> x.host_view()
        array([1., 1.])
        """
        self.check_open()
        pointer = None
        if self.is_managed:
            self.device.synchronize()
            pointer = self.pointer + self._owner.buffer.host_pointer - self._owner.buffer.pointer
        elif not self.device.shares_host_memory:
            raise ArgumentTypeError(
                f"the host cannot reach an array on {self.device}",
                value=self,
                limit="host_view() is there for managed arrays and arrays on the CPU",
                remedy="Use array.copy_to_host(), or make the array with kd.managed_empty",
            )
        self.lend()
        return self.as_numpy(self._owner, pointer)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3; arrays on other targets have no such attribute."""
        if self.device.memory_type is not MemoryType.CUDA:
            raise AttributeError(f"an array on {self.device} has no __cuda_array_interface__")
        self.lend()
        current = stream_of(self.device, None)
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer if self.size else 0, self.is_read_only),
            "version": 3,
            "strides": None if self.layout == "C" else self.strides,
            # The stream that the consumer has to wait for.
            "stream": _LEGACY_DEFAULT_STREAM if current is None else current.handle,
        }

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """NumPy's array interface; only for memory of the host."""
        if not self.device.shares_host_memory:
            raise AttributeError(f"an array on {self.device} has no __array_interface__")
        if self.dtype.isbuiltin != 1:
            # NumPy then calls __array__, which has the dtype.
            raise AttributeError(f"the array interface has no name for {self.dtype}")
        self.lend()
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.pointer, self.is_read_only),
            "version": 3,
            "strides": self.strides,
        }

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """Return a NumPy array over the same memory, or a copy; only for memory of the host."""
        self.check_open()
        if not self.device.shares_host_memory:
            raise ArgumentTypeError(
                f"an array on {self.device} is not converted to a NumPy array implicitly",
                value=self,
                limit="The copy to the host must be explicit",
                remedy="Use array.copy_to_host()",
            )
        self.lend()
        view = self.as_numpy(self)
        wanted = view.dtype if dtype is None else read_dtype(dtype)
        if view.dtype != wanted:
            if copy is False:
                raise ArgumentValueError(
                    "a conversion to another dtype needs a copy",
                    value=dtype,
                    limit="copy=False was given",
                    remedy="Omit copy",
                )
            return view.astype(wanted)
        return view.copy() if copy is not None and read_flag("copy", copy) else view

    def __dlpack_device__(self) -> tuple[int, int]:
        from kerneldsl.memory import dlpack

        return dlpack.dlpack_device(self)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        from kerneldsl.memory import dlpack

        return dlpack.export(self, stream, max_version, dl_device, copy)
