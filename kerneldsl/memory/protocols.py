"""Protocols by which NumPy and other libraries access device arrays, and compute with them.

References
----------
NumPy, "The array interface protocol", version 3; Numba, "CUDA Array Interface", version 3; the
array API standard 2024.12, "Array object" and "Data interchange mechanisms"; NumPy, NEP 13
(``__array_ufunc__``) and NEP 18 (``__array_function__``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from kerneldsl.contract import MemoryType
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.strided import read_dtype
from kerneldsl.placement.registry import load_own
from kerneldsl.streams.current import stream_of
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.own_packages import import_own
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayProtocols", "library_function", "library_reduction"]

#: The number by which the CUDA Array Interface names the legacy default stream.
_LEGACY_DEFAULT_STREAM = 1


@shorten_errors_of()
class ArrayProtocols(ArrayGeometry):
    """Interfaces of device arrays that other libraries read or call."""

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
        self.mark_foreign_use()
        return self.as_numpy(self._owner, pointer)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA Array Interface, version 3; arrays on other targets have no such attribute."""
        if self.device.memory_type is not MemoryType.CUDA:
            raise AttributeError(f"an array on {self.device} has no __cuda_array_interface__")
        self.mark_foreign_use()
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
        self.mark_foreign_use()
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
        self.mark_foreign_use()
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

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        """Return the module that has the functions of the Python array API standard.

        Parameters
        ----------
        api_version : str, optional
            A version of the standard, such as ``"2024.12"``; the module's own by default.

        Raises
        ------
        ArgumentValueError
            If the module does not follow that version.
        """
        namespace = import_own(_NAMESPACE)
        known: tuple[str, ...] = namespace.API_VERSIONS
        if api_version is not None and api_version not in known:
            raise ArgumentValueError(
                f"api_version is {safe_repr(api_version)}",
                value=api_version,
                limit=f"Versions of the array API standard are {', '.join(known)}",
                remedy="Omit api_version",
            )
        return namespace

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **named: Any) -> Any:
        return library_function("call_ufunc")(ufunc, method, inputs, named)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return library_function("call_function")(function, args, kwargs)


# A table of the functions that device arrays use from the library, by name.
#
# The core imports no library. A row names a function as ``module:function``, as the tables of
# built-in targets and commands do; it is imported at the first use.

#: The module that follows the Python array API standard.
_NAMESPACE = "stdlib_kernels.array_api"
#: Module of the reductions.
_REDUCTIONS = "stdlib_kernels.reduce"
_FUNCTIONS = {
    "assign": "stdlib_kernels.array_api.selecting:assign",
    "call_function": "stdlib_kernels.array_api.numpy_functions:call_function",
    "call_ufunc": "stdlib_kernels.array_api.numpy_functions:call_ufunc",
    "convert": "stdlib_kernels.copying:convert",
    "copy_elements": "stdlib_kernels.copying:copy_elements",
    "operate": "stdlib_kernels.array_api.operators:operate",
    "operate_in_place": "stdlib_kernels.array_api.operators:operate_in_place",
    "select": "stdlib_kernels.array_api.selecting:select",
}


@cache
def library_function(name: str) -> Callable[..., Any]:
    """Return the function of the library that a row of the table names."""
    return load_own(_FUNCTIONS[name])


@cache
def library_reduction(name: str) -> Callable[..., Any]:
    return load_own(f"{_REDUCTIONS}:{name}")
