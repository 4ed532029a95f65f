"""Classification of chains of attributes, ``np.random.rand`` say, by their first name."""

from __future__ import annotations

import ast
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from kerneldsl.frontend.reading import AttributeReader

__all__ = ["draws", "is_library", "is_linear_algebra", "is_of_times", "root_of", "steady_reader"]

#: Libraries whose modules keep their names for as long as a program runs.
_LIBRARIES = ("cmath", "kerneldsl", "math", "numba", "numba_cuda", "numpy", "operator")
_ABBREVIATIONS = {"kerneldsl": "kd", "numba": "nb", "numpy": "np"}


def root_of(chain: ast.expr) -> ast.Name:
    """Return the first name of a chain of attributes."""
    while isinstance(chain, ast.Attribute):
        chain = chain.value
    assert isinstance(chain, ast.Name)
    return chain


def is_library(name: str, value: object) -> bool:
    """Return whether a name is the usual one of a library's module."""
    if not isinstance(value, types.ModuleType):
        return False
    package, _, _ = value.__name__.partition(".")
    usual = (value.__name__.rpartition(".")[2], _ABBREVIATIONS.get(value.__name__))
    return package in _LIBRARIES and name in usual


def draws(owner: object, path: str) -> bool:
    """Return whether a chain leads into Python's or NumPy's random numbers."""
    module = owner.__name__ if isinstance(owner, types.ModuleType) else ""
    if module in ("random", "numpy.random") or (
        module == "numpy" and path.split(".")[1:2] == ["random"]
    ):
        return True
    return type(getattr(owner, "__self__", None)).__module__ in ("random", "numpy.random.mtrand")


def is_linear_algebra(value: object) -> bool:
    """Return whether a value is one of NumPy's functions that call LAPACK."""
    return str(getattr(value, "__module__", "")).startswith("numpy.linalg")


def is_of_times(value: object) -> bool:
    """Return whether a value is what NumPy makes and tests dates and durations with."""
    return any(value is each for each in (np.datetime64, np.timedelta64, np.isnat))


def steady_reader(read: Callable[[], Any]) -> Callable[[], Any]:
    """Return the innermost reader of a chain that reads the same object twice.

    An attribute that is rebuilt at each look, such as a bound method, cannot be compared by
    identity; its owner can.
    """
    while isinstance(read, AttributeReader) and read() is not read():
        read = read.owner
    return read
