"""The error function's relatives and the normal distribution, in float64.

The inverses begin with a guess of three digits and are improved by Newton's method, or Halley's,
until only rounding is left.

References
----------
Winitzki, "A handy approximation for the error function and its inverse", 2008 (the guess). NIST
Digital Library of Mathematical Functions, 7.12 (asymptotic series).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kerneldsl.lowering import scalars
from targets.cpu.intrinsics.operations import operation
from targets.cpu.math.vector import coefficients

__all__ = ["erfcinv", "erfcx", "erfinv", "normcdf", "normcdfinv"]

_fma = operation("fma", scalars.EMITTERS["fma"])

#: 2 / √π and 1 / √π.
_SLOPE, _ROOT = 1.1283791670955126, 0.5641895835477563
#: 1 / √2 as a float64, and what is missing.
_HALF_ROOT, _HALF_ROOT_REST = 0.7071067811865476, -4.833646656726457e-17
#: Coefficients of (1 + 2x) exp(x²) erfc(x) in (x - 4) / (x + 4), the highest first.
_SCALED = np.array(coefficients.ERFC["double"][::-1])
#: √2 as a float64.
_ROOT_OF_TWO = 1.4142135623730951


@register_jitable
def _scaled_center(x: Any) -> Any:
    """Return exp(x²) erfc(x) for x from 1/2 to 8, by the approximation that erfc is made of."""
    place = (x - 4.0) / (x + 4.0)
    total = 0.0
    for coefficient in _SCALED:
        total = _fma(total, place, coefficient)
    return total / _fma(2.0, x, 1.0)


@register_jitable
def _scaled_tail(x: Any) -> Any:
    """Return exp(x²) erfc(x) for x ≥ 8, by the asymptotic series."""
    step = -0.5 / (x * x)
    term, rest = 1.0, 0.0
    for k in range(1, 24):
        # Past 1e154 the square is infinite and the step 0.
        term *= step * (2 * k - 1)
        rest += term
    first = _ROOT / x
    return _fma(first, rest, first)


def erfcx(x: Any) -> Any:
    """Return exp(x²) erfc(x)."""
    if x >= 8.0:
        return _scaled_tail(x)
    if x >= 0.5:
        return _scaled_center(x)
    if x < -26.7:
        return math.inf
    square = x * x
    product = math.exp(square) * math.erfc(x)
    # exp(rest) is 1 + rest, for what the square lacks.
    return _fma(product, _fma(x, x, -square), product)


_erfcx = register_jitable(erfcx)


@register_jitable
def _guess(log: Any) -> Any:
    """Return about y > 0 of which (1 - erf²(y)) has a logarithm."""
    a = 0.147
    middle = 2.0 / (math.pi * a) + 0.5 * log
    return math.sqrt(math.sqrt(middle * middle - log / a) - middle)


@register_jitable
def _inverse_of_center(x: Any) -> Any:
    """Return y with erf(y) = x for |x| ≤ 3/4."""
    y = x / _SLOPE
    for _ in range(4):
        step = (math.erf(y) - x) / (_SLOPE * math.exp(-y * y))
        y -= step / (1.0 + y * step)
    return y


@register_jitable
def _inverse_of_tail(q: Any) -> Any:
    """Return y with erfc(y) = q for 0 < q ≤ 1/2, from the logarithms of both sides."""
    log = math.log(q)
    y = _guess(log + math.log(2.0 - q))
    for _ in range(5):
        scaled = _erfcx(y)
        y += (math.log(scaled) - y * y - log) * scaled / _SLOPE
    return y


def erfcinv(x: Any) -> Any:
    """Return y with erfc(y) = x."""
    if x == 0.0:
        return math.inf
    if x == 2.0:
        return -math.inf
    if not 0.0 < x < 2.0:
        return math.nan
    if x < 0.5:
        return _inverse_of_tail(x)
    if x > 1.5:
        return -_inverse_of_tail(2.0 - x)
    return _inverse_of_center(1.0 - x)


def erfinv(x: Any) -> Any:
    """Return y with erf(y) = x."""
    size = abs(x)
    if size <= 0.75:
        return x if x == 0.0 else _inverse_of_center(x)
    if size < 1.0:
        return math.copysign(_inverse_of_tail(1.0 - size), x)
    return math.copysign(math.inf, x) if size == 1.0 else math.nan


_erfcinv = register_jitable(erfcinv)


def normcdf(x: Any) -> Any:
    """Return the probability that a normal number is below x: erfc(-x / √2) / 2."""
    z = -_HALF_ROOT * x
    rest = _fma(-_HALF_ROOT, x, -z) - _HALF_ROOT_REST * x
    tail = math.erfc(z)
    if z > 1.0 and tail > 0.0:
        # The derivative of erfc at z, for what z lacks.
        tail -= rest * _SLOPE * math.exp(-z * z)
    return 0.5 * tail


def normcdfinv(x: Any) -> Any:
    """Return the number below which a normal number is with probability x."""
    return -_ROOT_OF_TWO * _erfcinv(2.0 * x)
