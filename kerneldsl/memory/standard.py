"""Dispatch from device arrays to the library: the array API standard and NumPy's protocols.

References
----------
Python array API standard 2024.12, "Array object"; NumPy, NEP 13 (``__array_ufunc__``) and NEP 18
(``__array_function__``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.memory.geometry import ArrayGeometry
from kerneldsl.placement.registry import load_own
from kerneldsl.utilities.own_packages import import_own
from kerneldsl.utilities.tracebacks import shorten_errors_of

__all__ = ["ArrayStandard", "library_function", "library_reduction"]


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
#: Where the reductions are.
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
