"""Operations on numbers where Numba's own raise, lose a sign or are inexact: written in Python.

Each target compiles them for itself (:mod:`kerneldsl.lowering.numba_internals.scalar_lowerings`
says for what). None raises, so that no thread ends and loops stay fit for vectors.

References
----------
R. L. Smith, "Algorithm 116: Complex division", Communications of the ACM 5 (1962). NumPy, the loops
of its universal functions ("loops.c.src", "npy_math_complex.c.src"), for special values.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

__all__ = [
    "LARGEST_EXPONENT",
    "complex_power",
    "complex_quotient",
    "complex_reciprocal",
    "complex_sign",
    "least_common_multiple",
    "rounded",
    "whole_power",
]

#: Greater exponents use the power of floats: its time does not grow with them.
LARGEST_EXPONENT = 0x10000
#: Largest number of decimal digits with an exact power of ten.
_EXACT_DIGITS = 22
#: Number of units of a decimal from which on a float64 is the nearest one of that decimal.
_MANY_UNITS = 2.0**53
#: Whole exponents below this are computed by multiplication, as in NumPy; others by a logarithm.
_LARGEST_COMPLEX_EXPONENT = 100


# -- complex numbers ----------------------------------------------------------------------------


def complex_quotient(a: complex, b: complex) -> complex:
    """Divide by Smith's algorithm, without branches; by 0 both parts are divided by 0."""
    c, d = b.real, b.imag
    is_wide = abs(c) >= abs(d)
    larger, smaller = (c, d) if is_wide else (d, c)
    ratio = smaller / larger
    divisor = larger + smaller * ratio
    real = a.real + a.imag * ratio if is_wide else a.real * ratio + a.imag
    imag = a.imag - a.real * ratio if is_wide else a.imag * ratio - a.real
    is_zero = c == 0 and d == 0
    divisor = abs(c) if is_zero else divisor
    real = a.real if is_zero else real
    imag = a.imag if is_zero else imag
    return complex(real / divisor, imag / divisor)


def complex_reciprocal(z: complex) -> complex:
    """Divide 1 by a number; the parts of 1 / 0 are NaN, as NumPy's reciprocal has them."""
    c, d = z.real, z.imag
    if abs(c) <= abs(d):
        ratio = c / d
        divisor = d + c * ratio
        return complex(ratio / divisor, -1 / divisor)
    ratio = d / c
    divisor = c + d * ratio
    return complex(1 / divisor, -ratio / divisor)


def complex_power(a: complex, b: complex) -> complex:
    """Raise to a power: by products for small whole exponents, else in polar form."""
    x, y = np.complex128(a), np.complex128(b)
    if y.real == 0 and y.imag == 0:
        return complex(1.0, 0.0)
    if x.real == 0 and x.imag == 0:
        return complex(0.0, 0.0) if y.real > 0 else complex(math.nan, math.nan)
    if y.imag == 0 and abs(y.real) < _LARGEST_COMPLEX_EXPONENT and math.floor(y.real) == y.real:
        left = int(abs(y.real))
        while left % 2 == 0:
            x = x * x
            left >>= 1
        product = x
        left >>= 1
        while left:
            x = x * x
            if left % 2:
                product = product * x
            left >>= 1
        return 1 / product if y.real < 0 else product
    modulus = math.hypot(x.real, x.imag)
    angle = math.atan2(x.imag, x.real)
    length = math.pow(modulus, y.real)
    phase = angle * y.real
    if y.imag != 0:
        length *= math.exp(-angle * y.imag)
        phase += y.imag * math.log(modulus)
    return complex(length * math.cos(phase), length * math.sin(phase))


def complex_sign(z: complex) -> complex:
    """Return the number of that direction and length 1, and 0 of 0."""
    length = math.hypot(z.real, z.imag)
    if math.isnan(length) or (math.isinf(z.real) and math.isinf(z.imag)):
        return complex(math.nan, math.nan)
    if math.isinf(length):
        real = math.copysign(1.0, z.real) if math.isinf(z.real) else 0.0
        imag = math.copysign(1.0, z.imag) if math.isinf(z.imag) else 0.0
        return complex(real, imag)
    if length == 0:
        return complex(0.0, 0.0)
    return complex(z.real / length, z.imag / length)


# -- real numbers -------------------------------------------------------------------------------


def whole_power(kind: Any) -> Callable[[Any, Any], Any]:
    """Return the power of a number by an integer, with a result of a Numba type.

    That of integers wraps around. To a negative power 1 and -1 are themselves, 0 the least integer,
    and every other one 0.
    """
    if isinstance(kind, types.Float):

        def float_power(a: Any, b: Any) -> Any:
            whole = np.int64(b)
            if b > LARGEST_EXPONENT or whole < -LARGEST_EXPONENT:
                return math.pow(kind(a), kind(b))
            base, product = kind(a), kind(1)
            left = abs(whole)
            while left != 0:
                if left & 1:
                    product *= base
                left >>= 1
                base *= base
            return kind(1) / product if whole < 0 else product

        return float_power

    least = kind.minval if kind.signed else 0

    def integer_power(a: Any, b: Any) -> Any:
        base, product = kind(a), kind(1)
        if b < 0:
            if base == 0:
                return kind(least)
            if base == 1:
                return base
            if base == kind(-1):
                return base if b & 1 else product
            return kind(0)
        left = np.uint64(b)
        while left != 0:
            if left & np.uint64(1):
                product = kind(product * base)
            left >>= np.uint64(1)
            base = kind(base * base)
        return product

    return integer_power


def least_common_multiple(kind: Any) -> Callable[[Any, Any], Any]:
    """Return the function of two integers of a Numba type, which wraps around."""

    def lcm(a: Any, b: Any) -> Any:
        if a == kind(0):
            return kind(0)
        return kind(kind(abs(a) // np.gcd(a, b)) * abs(b))

    return lcm


@intrinsic
def _fused(typingctx: Any, a: Any, b: Any, c: Any) -> Any:
    """Return ``a * b + c``, rounded once."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), generate


def rounded(x: float, digits: int) -> float:
    """Round to a decimal, ties to even, as Python does: the nearest float64 of the exact decimal.

    The rounding error of the product or quotient shows on which side of the middle between two
    decimals a number is. Beyond 22 digits the power of ten is not exact, so that the last place of
    the result may be another one.
    """
    value = np.float64(x)
    if math.isinf(value) or math.isnan(value):
        return value
    count = abs(digits)
    scale = 10.0 ** min(count, _EXACT_DIGITS)
    more = 10.0 ** min(max(count - _EXACT_DIGITS, 0), 300)
    if digits >= 0:
        scaled = value * scale * more
        rest = _fused(value, scale, -scaled) if count <= _EXACT_DIGITS else 0.0
    else:
        scaled = value / scale / more
        rest = _fused(-scaled, scale, value) if count <= _EXACT_DIGITS else 0.0
    if abs(scaled) >= _MANY_UNITS:
        return value
    whole = np.rint(scaled)
    # A half is detected by its double, which is whole. A difference could be contracted into the
    # product.
    if rest != 0 and whole != scaled and np.rint(scaled * 2) == scaled * 2:
        whole = np.floor(scaled) if rest < 0 else np.ceil(scaled)
    result = whole / more / scale if digits >= 0 else whole * scale * more
    return math.copysign(result, value)
