"""Operations of numbers that kernels are given, and what they leave every number unchanged with."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["abs_squared", "add", "identity_of", "larger", "multiply", "smaller", "unchanged"]


def unchanged(total: Any, parameter: Any) -> Any:
    """Return the value itself."""
    return total


def add(a: Any, b: Any) -> Any:
    """Return the sum."""
    return a + b


def multiply(a: Any, b: Any) -> Any:
    """Return the product."""
    return a * b


def abs_squared(v: Any) -> Any:
    """Return the square of a real or complex number's size."""
    return v.real * v.real + v.imag * v.imag


def larger(a: Any, b: Any) -> Any:
    """Return the larger number, or one that is NaN."""
    return np.maximum(a, b)


def smaller(a: Any, b: Any) -> Any:
    """Return the smaller number, or one that is NaN."""
    return np.minimum(a, b)


def identity_of(op: Any, number: np.dtype[Any]) -> Any:
    """Return what a sum, a product or an extreme of numbers of a dtype is, of no elements."""
    if op in (add, multiply):
        return number.type(op is multiply)
    # The identity of an extreme is the last number of the dtype in its direction, inf for floats.
    if number.kind in "fc":
        last = -np.inf if op is larger else np.inf
        return number.type(complex(last, last) if number.kind == "c" else last)
    ends = (False, True) if number.kind == "b" else (np.iinfo(number).min, np.iinfo(number).max)
    return number.type(ends[op is smaller])
