"""Exponential, trigonometric and hyperbolic functions of complex numbers, written in Python.

Numba's give NaN where C and NumPy have a limit, and lose signs of zeros. Each function here returns
one for numbers with parts of a Numba type, which its constants have, too: of complex64 all is
computed in float32.

References
----------
ISO/IEC 9899:2011, annex G.6, "Complex arithmetic <complex.h>". W. Kahan, "Branch Cuts for Complex
Elementary Functions, or Much Ado About Nothing's Sign Bit" (1987), for the tangent.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any, TypeAlias

__all__ = [
    "complex_acosh",
    "complex_cos",
    "complex_cosh",
    "complex_exp",
    "complex_exp2",
    "complex_expm1",
    "complex_sin",
    "complex_sinh",
    "complex_tan",
    "complex_tanh",
]

_Function: TypeAlias = Callable[[complex], complex]


def complex_exp(kind: Any) -> _Function:
    """Compute e to a power."""
    half, zero = kind(0.5), kind(0)

    def exp(z: complex) -> complex:
        x, y = z.real, z.imag
        length = math.exp(x)
        if y == zero:
            return complex(length, y)
        if math.isinf(x) and not math.isfinite(y):
            if x > zero:
                return complex(abs(x), y - y)
            return complex(zero, zero)  # C leaves the signs open, and Python has these
        # Beyond the greatest number the parts may still have values.
        last = kind(1)
        if math.isinf(length) and not math.isinf(x):
            length = last = math.exp(x * half)
        return complex(length * math.cos(y) * last, length * math.sin(y) * last)

    return exp


def complex_exp2(kind: Any) -> _Function:
    """Compute 2 to a power."""
    logarithm = kind(math.log(2))

    def exp2(z: complex) -> complex:
        return cmath.exp(complex(z.real * logarithm, z.imag * logarithm))

    return exp2


def complex_expm1(kind: Any) -> _Function:
    """Compute the exponential less 1, exactly near 0."""
    half, two = kind(0.5), kind(2)

    def expm1(z: complex) -> complex:
        x, y = z.real, z.imag
        sine = math.sin(y * half)
        return complex(math.expm1(x) * math.cos(y) - two * sine * sine, math.exp(x) * math.sin(y))

    return expm1


def complex_sinh(kind: Any) -> _Function:
    """Compute the hyperbolic sine."""
    half, zero = kind(0.5), kind(0)

    def sinh(z: complex) -> complex:
        x, y = z.real, z.imag
        if y == zero:
            return complex(math.sinh(x), y)
        if x == zero:
            return complex(x * math.cos(y) if math.isfinite(y) else x, math.sin(y))
        if math.isinf(x) and not math.isfinite(y):
            return complex(abs(x), y - y)
        sine, cosine = math.sinh(x), math.cosh(x)
        last = kind(1)
        if math.isinf(cosine) and not math.isinf(x):
            last = math.exp(abs(x) * half)
            cosine = half * last
            sine = math.copysign(cosine, x)
        return complex(sine * math.cos(y) * last, cosine * math.sin(y) * last)

    return sinh


def complex_cosh(kind: Any) -> _Function:
    """Compute the hyperbolic cosine."""
    half, zero, one = kind(0.5), kind(0), kind(1)

    def cosh(z: complex) -> complex:
        x, y = z.real, z.imag
        if y == zero:
            return complex(math.cosh(x), y if math.isnan(x) else y * math.copysign(one, x))
        if x == zero:
            imag = x * math.sin(y) if math.isfinite(y) else zero
            return complex(math.cos(y), imag)
        if math.isinf(x) and not math.isfinite(y):
            return complex(abs(x), y - y)
        sine, cosine = math.sinh(x), math.cosh(x)
        last = one
        if math.isinf(cosine) and not math.isinf(x):
            last = math.exp(abs(x) * half)
            cosine = half * last
            sine = math.copysign(cosine, x)
        return complex(cosine * math.cos(y) * last, sine * math.sin(y) * last)

    return cosh


def complex_tanh(kind: Any) -> _Function:
    """Compute the hyperbolic tangent."""
    zero, one, two, four, many = kind(0), kind(1), kind(2), kind(4), kind(20)

    def tanh(z: complex) -> complex:
        x, y = z.real, z.imag
        if y == zero:
            return complex(math.tanh(x), y)
        if math.isinf(x):
            imag = math.sin(y) * math.cos(y) if math.isfinite(y) else y
            return complex(math.copysign(one, x), math.copysign(zero, imag))
        if not math.isfinite(y):
            return complex(x if x == zero else y - y, y - y)
        if abs(x) > many:
            rest = four * math.sin(y) * math.cos(y) * math.exp(-two * abs(x))
            return complex(math.copysign(one, x), rest)
        tangent = math.tan(y)
        sine = math.sinh(x)
        root = math.sqrt(one + sine * sine)
        slope = one + tangent * tangent
        if math.isinf(slope):
            return complex(root / sine, one / tangent)
        divisor = one + slope * sine * sine
        return complex(slope * root * sine / divisor, tangent / divisor)

    return tanh


def complex_sin(kind: Any) -> _Function:
    """Compute the sine, which is i sinh(z / i)."""

    def sin(z: complex) -> complex:
        turned = cmath.sinh(complex(-z.imag, z.real))
        return complex(turned.imag, -turned.real)

    return sin


def complex_cos(kind: Any) -> _Function:
    """Compute the cosine, which is cosh(z / i)."""

    def cos(z: complex) -> complex:
        return cmath.cosh(complex(-z.imag, z.real))

    return cos


def complex_tan(kind: Any) -> _Function:
    """Compute the tangent, which is i tanh(z / i)."""

    def tan(z: complex) -> complex:
        turned = cmath.tanh(complex(-z.imag, z.real))
        return complex(turned.imag, -turned.real)

    return tan


def complex_acosh(kind: Any) -> _Function:
    """Compute the inverse hyperbolic cosine, which is the arc cosine turned to the right."""

    def acosh(z: complex) -> complex:
        turned = cmath.acos(z)
        if math.isnan(turned.real):
            return complex(abs(turned.imag), turned.real)
        if math.isnan(turned.imag):
            return complex(turned.imag, turned.imag if turned.real == 0 else turned.real)
        return complex(abs(turned.imag), math.copysign(turned.real, z.imag))

    return acosh
