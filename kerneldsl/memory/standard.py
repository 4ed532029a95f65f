"""Dispatch from device arrays to the library: the array API standard and NumPy's protocols.

References
----------
Python array API standard 2024.12, "Array object"; NumPy, NEP 13 (``__array_ufunc__``) and NEP 18
(``__array_function__``).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.memory.library import library_function, library_namespace
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayStandard"]


@shorten_errors_of()
class ArrayStandard(ArrayGeometry):
    """Methods by which other libraries find what computes with device arrays."""

    __slots__ = ()

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
        namespace = library_namespace()
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
