"""Functions of numbers in the language of kernels, from which elementwise functions are made.

For integers they follow NumPy: a quotient or remainder by 0 is 0, and a shift by the width of the
number or more gives 0. The public function of the same name documents each.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def absolute(v: Any) -> Any:
    return abs(v)


def acos(v: Any) -> Any:
    return np.arccos(v)


def acosh(v: Any) -> Any:
    return np.arccosh(v)


def add(a: Any, b: Any) -> Any:
    return a + b


def always(v: Any) -> Any:
    return True


def asin(v: Any) -> Any:
    return np.arcsin(v)


def asinh(v: Any) -> Any:
    return np.arcsinh(v)


def atan(v: Any) -> Any:
    return np.arctan(v)


def atan2(a: Any, b: Any) -> Any:
    return np.arctan2(a, b)


def atanh(v: Any) -> Any:
    return np.arctanh(v)


def bitwise_and(a: Any, b: Any) -> Any:
    return a & b


def bitwise_or(a: Any, b: Any) -> Any:
    return a | b


def bitwise_xor(a: Any, b: Any) -> Any:
    return a ^ b


def ceil(v: Any) -> Any:
    return np.ceil(v)


def conj(v: Any) -> Any:
    return np.conj(v)


def copysign(a: Any, b: Any) -> Any:
    return np.copysign(a, b)


def cos(v: Any) -> Any:
    return np.cos(v)


def cosh(v: Any) -> Any:
    return np.cosh(v)


def divide(a: Any, b: Any) -> Any:
    return a / b


def equal(a: Any, b: Any) -> Any:
    return a == b


def exp(v: Any) -> Any:
    return np.exp(v)


def expm1(v: Any) -> Any:
    return np.expm1(v)


def float_floor_divide(a: Any, b: Any) -> Any:
    return np.floor_divide(a, b)


def float_remainder(a: Any, b: Any) -> Any:
    return np.remainder(a, b)


def floor(v: Any) -> Any:
    return np.floor(v)


def floor_divide(a: Any, b: Any) -> Any:
    if b == 0:
        return a - a
    return -a if b == -1 else a // b  # the least integer by -1 is a fault of the processor's


def greater(a: Any, b: Any) -> Any:
    return a > b


def greater_equal(a: Any, b: Any) -> Any:
    return a >= b


def hypot(a: Any, b: Any) -> Any:
    return np.hypot(a, b)


def imag(v: Any) -> Any:
    return v.imag


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


def invert(v: Any) -> Any:
    return ~v


def isfinite(v: Any) -> Any:
    return np.isfinite(v)


def isinf(v: Any) -> Any:
    return np.isinf(v)


def isnan(v: Any) -> Any:
    return np.isnan(v)


def less(a: Any, b: Any) -> Any:
    return a < b


def less_equal(a: Any, b: Any) -> Any:
    return a <= b


def log(v: Any) -> Any:
    return np.log(v)


def log10(v: Any) -> Any:
    return np.log10(v)


def log1p(v: Any) -> Any:
    return np.log1p(v)


def log2(v: Any) -> Any:
    return np.log2(v)


def logaddexp(a: Any, b: Any) -> Any:
    return np.logaddexp(a, b)


def logical_and(a: Any, b: Any) -> Any:
    return a != 0 and b != 0


def logical_not(v: Any) -> Any:
    return v == 0


def logical_or(a: Any, b: Any) -> Any:
    return a != 0 or b != 0


def logical_xor(a: Any, b: Any) -> Any:
    return (a != 0) != (b != 0)


def multiply(a: Any, b: Any) -> Any:
    return a * b


def nearest(v: Any) -> Any:
    return np.rint(v)


def nearest_complex(v: Any) -> Any:
    return complex(np.rint(v.real), np.rint(v.imag))


def negative(v: Any) -> Any:
    return -v


def never(v: Any) -> Any:
    return False


def nextafter(a: Any, b: Any) -> Any:
    return np.nextafter(a, b)


def not_equal(a: Any, b: Any) -> Any:
    return a != b


def positive(v: Any) -> Any:
    return v


def power(a: Any, b: Any) -> Any:
    return np.power(a, b)


def real(v: Any) -> Any:
    return v.real


def reciprocal(v: Any) -> Any:
    return 1 / v


def remainder(a: Any, b: Any) -> Any:
    return a - a if b in (0, -1) else a % b


def shift_left(a: Any, b: Any) -> Any:
    return np.int64(a) << np.int64(b) if 0 <= b < 64 else np.int64(0)


def shift_right(a: Any, b: Any) -> Any:
    if 0 <= b < 64:
        return np.int64(a) >> np.int64(b)
    return np.int64(-1 if a < 0 else 0)


def sign(v: Any) -> Any:
    return np.sign(v)


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


def signbit(v: Any) -> Any:
    return np.signbit(v)


def sin(v: Any) -> Any:
    return np.sin(v)


def sinh(v: Any) -> Any:
    return np.sinh(v)


def sqrt(v: Any) -> Any:
    return np.sqrt(v)


def square(v: Any) -> Any:
    return v * v


def subtract(a: Any, b: Any) -> Any:
    return a - b


def tan(v: Any) -> Any:
    return np.tan(v)


def tanh(v: Any) -> Any:
    return np.tanh(v)


def trunc(v: Any) -> Any:
    return np.trunc(v)


def unsigned_floor_divide(a: Any, b: Any) -> Any:
    return a - a if b == 0 else a // b


def unsigned_remainder(a: Any, b: Any) -> Any:
    return a - a if b == 0 else a % b


def unsigned_shift_right(a: Any, b: Any) -> Any:
    return np.uint64(a) >> np.uint64(b) if b < 64 else np.uint64(0)
