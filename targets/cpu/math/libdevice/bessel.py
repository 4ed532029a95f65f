"""Bessel functions: C's library has those of both kinds, the modified ones are series.

Near 10 a dozen terms of the power series are of the sum's size, and so would be their rounding
errors: it is summed with what each product and each sum lacks. Of the series for large arguments
only the first term is not small, so that the others need no such care.

References
----------
NIST Digital Library of Mathematical Functions, 10.25.2 (power series) and 10.40.1 (for large
arguments). Graillat, Langlois, Louvet, "Compensated Horner scheme", 2005. Muller et al., "Handbook
of Floating-Point Arithmetic", section "Exact products" and what follows it on square roots.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kerneldsl.lowering import scalars
from targets.cpu.intrinsics.operations import operation
from targets.cpu.math.libdevice.c_library import c_function

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
#: Terms of a series: below 20 and from there on, the next ones are less than 1e-18 of the sum.
_TERMS = 40
#: 2π as a float64, and what is missing.
_TWO_PI, _TWO_PI_REST = 6.283185307179586, 2.4492935982947064e-16
#: The modified functions overflow just below.
_OVERFLOW = 714.0
#: exp overflows before they do: from here on e to the power of 20, which is next to a float64, is
#: multiplied at the end.
_EXP_OVERFLOW, _TAKEN, _POWER_TAKEN = 709.0, 20.0, 485165195.4097903


def _power_series(order: int) -> np.ndarray:
    """Return the coefficients of powers of x² / 4, the highest first, and what each lacks."""
    rows = []
    for k in reversed(range(_TERMS)):
        exact = Fraction(1, math.factorial(k) * math.factorial(k + order))
        rows.append((float(exact), float(exact - Fraction(float(exact)))))
    return np.array(rows)


def _large_series(order: int) -> np.ndarray:
    """Return the coefficients of powers of 1 / x, the highest first, without the 1 at the end."""
    exact, found = Fraction(1), []
    for k in range(1, _TERMS + 1):
        exact *= Fraction((2 * k - 1) ** 2 - 4 * order**2, 8 * k)
        found.append(float(exact))
    return np.array(found[::-1])


_SMALL_0, _SMALL_1 = _power_series(0), _power_series(1)
_LARGE_0, _LARGE_1 = _large_series(0), _large_series(1)


@register_jitable
def _large(size: Any, series: Any) -> Any:
    """Return the sum of the series for large arguments times exp(size) / √(2π size)."""
    inverse = 1.0 / size
    small = 0.0
    for coefficient in series:
        small = (small + coefficient) * inverse
    is_too_large = size > _EXP_OVERFLOW
    power = math.exp(size - _TAKEN if is_too_large else size)
    square = _TWO_PI * size
    square_rest = _fma(_TWO_PI, size, -square) + _TWO_PI_REST * size
    root = math.sqrt(square)
    quotient = power / root
    # What the root and the quotient lack, as shares of them.
    small -= 0.5 * (_fma(-root, root, square) + square_rest) / square
    small += _fma(-quotient, root, power) / power
    value = _fma(quotient, small, quotient)
    return value * _POWER_TAKEN if is_too_large else value


@register_jitable
def _small(size: Any, series: Any) -> Any:
    """Return the sum of the power series, and what it lacks."""
    half = 0.5 * size
    square = half * half
    square_rest = _fma(half, half, -square)
    total, rest = 0.0, 0.0
    for row in range(series.shape[0]):
        coefficient = series[row, 0]
        product = total * square
        added = product + coefficient
        part = added - product
        lost = _fma(total, square, -product) + (product - (added - part)) + (coefficient - part)
        rest = _fma(rest, square, _fma(total, square_rest, lost + series[row, 1]))
        total = added
    return total, rest


def i0(x: Any) -> Any:
    """Return the modified Bessel function of order 0."""
    size = abs(x)
    if size > _OVERFLOW:
        return math.inf
    if size >= _LARGE:
        return _large(size, _LARGE_0)
    total, rest = _small(size, _SMALL_0)
    return total + rest


def i1(x: Any) -> Any:
    """Return the modified Bessel function of order 1."""
    size = abs(x)
    if size > _OVERFLOW:
        return math.copysign(math.inf, x)
    if size >= _LARGE:
        return math.copysign(_large(size, _LARGE_1), x)
    total, rest = _small(size, _SMALL_1)
    half = 0.5 * x
    return _fma(half, total, half * rest)


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
