"""A table of the functions that device arrays use from the library, by name.

The core imports no library. A row names a function as ``module:function``, as the tables of
built-in targets and commands do; it is imported at the first use.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

from kerneldsl.placement.registry import load_own
from kerneldsl.utilities.own_packages import import_own

__all__ = ["library_function", "library_namespace", "library_reduction"]

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
    """Return a reduction of the library."""
    return load_own(f"{_REDUCTIONS}:{name}")


def library_namespace() -> ModuleType:
    """Return the library's namespace of the array API."""
    return import_own(_NAMESPACE)
