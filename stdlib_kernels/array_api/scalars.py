"""Functions of numbers of some kinds only, beside those of elementwise functions of the same name.

Integers follow NumPy. A quotient or remainder by 0 is 0; a shift by the width of a number is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def always(v: Any) -> Any:
    return True


def float_floor_divide(a: Any, b: Any) -> Any:
    return np.floor_divide(a, b)


def float_remainder(a: Any, b: Any) -> Any:
    return np.remainder(a, b)


def integer_power(a: Any, b: Any) -> Any:
    """Return a power, which wraps around; for a negative exponent its integer part."""
    base, rest, result = np.int64(a), np.uint64(b), np.int64(1)
    if b < 0:
        if base == -1:
            return np.int64(1 - 2 * (np.int64(b) & 1))
        return np.int64(base == 1)
    while rest != 0:
        if rest & np.uint64(1):
            result *= base
        base *= base
        rest >>= np.uint64(1)
    return result


def is_zero(v: Any) -> Any:
    return v == 0


def nearest_complex(v: Any) -> Any:
    return complex(np.rint(v.real), np.rint(v.imag))


def never(v: Any) -> Any:
    return False


def real(v: Any) -> Any:
    return v.real


def sign_complex(v: Any) -> Any:
    size = abs(v)
    if size == 0:
        return complex(size, size)
    if not np.isinf(size):
        return v / size
    if np.isinf(v.real) and np.isinf(v.imag):
        return complex(size - size, size - size)
    if np.isinf(v.real):
        return complex(np.copysign(1.0, v.real), 0.0)
    return complex(0.0, np.copysign(1.0, v.imag))


def unsigned_floor_divide(a: Any, b: Any) -> Any:
    return a - a if b == 0 else a // b


def unsigned_remainder(a: Any, b: Any) -> Any:
    return a - a if b == 0 else a % b


def unsigned_shift_right(a: Any, b: Any) -> Any:
    return np.uint64(a) >> np.uint64(b) if b < 64 else np.uint64(0)
