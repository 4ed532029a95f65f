"""Intrinsics of numbers outside of kernels, for device functions that hosts call, too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

__all__ = ["bitcast", "fma", "mulhi"]

_NARROW = (np.dtype(np.float16), np.dtype(np.float32))


def bitcast(value: Any, dtype: Any) -> Any:
    """Return the bits of a NumPy scalar, or of a Python number, as another dtype's."""
    return np.asarray(value).view(dtype)[()]


def fma(a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c`` rounded once, a float32 where all are that or narrower floats.

    References
    ----------
    Sylvie Boldo and Guillaume Melquiond, "Emulation of a FMA and Correctly Rounded Sums: Proved
    Algorithms Using Rounding to Odd", IEEE Transactions on Computers 57 (2008).
    """
    are_narrow = all(getattr(each, "dtype", None) in _NARROW for each in (a, b, c))
    first, second, third = float(a), float(b), float(c)
    product = first * second
    if are_narrow:  # a product of two of them is a float64
        return np.float32(_sum_to_odd(product, third))
    if math.isinf(third) and math.isfinite(first) and math.isfinite(second):
        return np.float64(third)  # the product may be beyond all floats, and is less
    if not all(map(math.isfinite, (first, second, third))) or not (first and second):
        return np.float64(product + third)
    from fractions import Fraction  # with decimal numbers, which few programs need

    exact = Fraction(first) * Fraction(second) + Fraction(third)
    try:
        return np.float64(float(exact) if exact else product + third)
    except OverflowError:
        return np.float64(math.inf if exact > 0 else -math.inf)


def mulhi(a: Any, b: Any) -> Any:
    """Return the upper half of the product of two NumPy integers of one dtype."""
    return a.dtype.type(int(a) * int(b) >> 8 * a.dtype.itemsize)


def _sum_to_odd(a: float, b: float) -> float:
    """Return a sum that can be rounded again: if it is not exact, its last bit is set."""
    total = a + b
    added = total - a
    error = (a - (total - added)) + (b - added)
    if error and math.isfinite(error) and not np.float64(total).view(np.uint64) & np.uint64(1):
        return math.nextafter(total, math.copysign(math.inf, error))
    return total
