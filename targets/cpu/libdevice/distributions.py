"""The error function's relatives and the normal distribution, in float64.

The inverses begin with a guess of three digits and are improved by Newton's method, or Halley's,
until nothing but rounding is left.

References
----------
Winitzki, "A handy approximation for the error function and its inverse", 2008 (the guess). NIST
Digital Library of Mathematical Functions, 7.9 (continued fractions) and 7.12 (asymptotic series).
"""

from __future__ import annotations

import math
from typing import Any

from numba.extending import register_jitable

from kerneldsl.lowering import scalars
from targets.cpu.intrinsics.operations import operation

__all__ = ["erfcinv", "erfcx", "erfinv", "normcdf", "normcdfinv"]

_fma = operation("fma", scalars.EMITTERS["fma"])

#: 2 / √π and 1 / √π.
_SLOPE, _ROOT = 1.1283791670955126, 0.5641895835477563
#: 1 / √2 as a float64, and what is missing.
_HALF_ROOT, _HALF_ROOT_REST = 0.7071067811865476, -4.833646656726457e-17
#: √2 as a float64.
_ROOT_OF_TWO = 1.4142135623730951


@register_jitable
def _exp_of_square(x: Any) -> Any:
    """Return exp(x²), of which the error of x² is no part."""
    square = x * x
    return math.exp(square) * (1.0 + _fma(x, x, -square))


@register_jitable
def _scaled_tail(x: Any) -> Any:
    """Return exp(x²) erfc(x) for x ≥ 8, by the asymptotic series."""
    step = -0.5 / (x * x)
    term, total = 1.0, 1.0
    for k in range(1, 24):
        # Past 1e154 the square is infinite and the step 0.
        term *= step * (2 * k - 1)
        total += term
    return _ROOT * (total / x)


def erfcx(x: Any) -> Any:
    """Return exp(x²) erfc(x)."""
    if x >= 8.0:
        return _scaled_tail(x)
    if x < -26.7:
        return math.inf
    return _exp_of_square(x) * math.erfc(x)


_erfcx = register_jitable(erfcx)


@register_jitable
def _guess(log: Any) -> Any:
    """Return about y > 0 of which (1 - erf²(y)) has a logarithm."""
    a = 0.147
    middle = 2.0 / (math.pi * a) + 0.5 * log
    return math.sqrt(math.sqrt(middle * middle - log / a) - middle)


@register_jitable
def _inverse_of_center(x: Any) -> Any:
    """Return y with erf(y) = x for |x| ≤ 1/2."""
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
    if size <= 0.5:
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
