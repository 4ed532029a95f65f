"""Bessel functions: C's library has those of the first kind, the modified ones are series.

References
----------
NIST Digital Library of Mathematical Functions, 10.25.2 (power series) and 10.40.1 (for large
arguments).
"""

from __future__ import annotations

import math
from typing import Any

from numba.extending import register_jitable

from kerneldsl.lowering import scalars
from targets.cpu.intrinsics.operations import operation
from targets.cpu.libdevice.c_library import c_function

__all__ = ["i0", "i1", "j0", "j1", "jn", "y0", "y1", "yn"]

_fma = operation("fma", scalars.EMITTERS["fma"])

_j0 = c_function("j0", "float64", "float64")
_j1 = c_function("j1", "float64", "float64")
_jn = c_function("jn", "float64", "int32", "float64")
_y0 = c_function("y0", "float64", "float64")
_y1 = c_function("y1", "float64", "float64")
_yn = c_function("yn", "float64", "int32", "float64")

#: From here on the series for large arguments has reached float64's precision before it grows.
_LARGE = 20.0


@register_jitable
def _large(size: Any, order: Any) -> Any:
    four = 4.0 * order * order
    term, total = 1.0, 1.0
    for k in range(1, 41):
        odd = 2.0 * k - 1.0
        term *= (odd * odd - four) / (8.0 * k * size)
        total += term
    # In two steps: exp overflows before the product does.
    half = math.exp(0.5 * size)
    return half * (total / math.sqrt(2.0 * math.pi * size)) * half


@register_jitable
def _small(size: Any, order: Any) -> Any:
    half = 0.5 * size
    square = half * half
    rest = _fma(half, half, -square)
    term, total, slope = 1.0, 1.0, 0.0
    for k in range(1, 50):
        term *= square / (k * (k + order))
        total += term
        slope += k * term
    # What the square lacks changes every term by as many times its share as the term has factors.
    return total + slope * (rest / square) if square > 0.0 else total


def i0(x: Any) -> Any:
    """Return the modified Bessel function of order 0."""
    size = abs(x)
    if math.isinf(size):
        return math.inf
    return _large(size, 0.0) if size >= _LARGE else _small(size, 0.0)


def i1(x: Any) -> Any:
    """Return the modified Bessel function of order 1."""
    size = abs(x)
    if math.isinf(size):
        return x
    value = _large(size, 1.0) if size >= _LARGE else 0.5 * size * _small(size, 1.0)
    return math.copysign(value, x)


def j0(x: Any) -> Any:
    """Return the Bessel function of the first kind of order 0."""
    return _j0(x)


def j1(x: Any) -> Any:
    """Return the Bessel function of the first kind of order 1."""
    return _j1(x)


def jn(n: Any, x: Any) -> Any:
    """Return the Bessel function of the first kind of an order, NaN of one below 0."""
    return math.nan if n < 0 else _jn(n, x)


def y0(x: Any) -> Any:
    """Return the Bessel function of the second kind of order 0."""
    return _y0(x)


def y1(x: Any) -> Any:
    """Return the Bessel function of the second kind of order 1."""
    return _y1(x)


def yn(n: Any, x: Any) -> Any:
    """Return the Bessel function of the second kind of an order, NaN of one below 0."""
    return math.nan if n < 0 else _yn(n, x)
