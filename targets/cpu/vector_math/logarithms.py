"""log and log2.

A positive number is (1 + f) * 2**n with 1 + f from 2/3 to 4/3; a polynomial gives the logarithm of
1 + f.

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapter 5. J.-M. Muller, "Elementary Functions", 3rd edition, Birkhäuser 2016, chapter 11.
"""

from __future__ import annotations

import math

from targets.cpu.vector_math.expressions import Value, fma, polynomial, select
from targets.cpu.vector_math.numbers import NAN, high_part, split, whole

__all__ = ["log", "log2"]

_h = float.fromhex

_LOWEST = _h("0x1.555556p-1")
#: log(2) in two parts, of which the first has few places.
_LOG2 = (_h("0x1.62e4p-1"), _h("0x1.7f7d1cp-20"))
#: (log(1 + f) - f + f**2 / 2) / f**3, to 1.9e-8 of log(1 + f).
_LOG = (
    _h("0x1.55554cp-2"),
    _h("-0x1.ffff74p-3"),
    _h("0x1.99addep-3"),
    _h("-0x1.558a74p-3"),
    _h("0x1.211ab6p-3"),
    _h("-0x1.f4c81p-4"),
    _h("0x1.132ee2p-3"),
    _h("-0x1.04ff52p-3"),
)
#: 1 / log(2) in two parts, the first of 12 places.
_INVERSE_2 = (_h("0x1.716p0"), _h("-0x1.7135a8p-13"))
#: (log2(1 + f) - f / log(2)) / f**2, to 8.8e-9 of log2(1 + f).
_LOG_2 = (
    _h("-0x1.715476p-1"),
    _h("0x1.ec7062p-2"),
    _h("-0x1.715414p-2"),
    _h("0x1.27926cp-2"),
    _h("-0x1.ecc2ccp-3"),
    _h("0x1.9f419p-3"),
    _h("-0x1.68e5dep-3"),
    _h("0x1.966f6cp-3"),
    _h("-0x1.79e14p-3"),
)


def log(x: Value) -> Value:
    """Write the natural logarithm."""
    mantissa, exponent = split(x, _LOWEST)
    f = mantissa - 1.0
    n = whole(exponent, x)
    square = f * f
    tail = fma(f, polynomial(f, *_LOG), -0.5)
    low = fma(square, tail, n * _LOG2[1])
    return _with_limits(x, fma(n, _LOG2[0], f + low))


def log2(x: Value) -> Value:
    """Write the logarithm to base 2."""
    mantissa, exponent = split(x, _LOWEST)
    f = mantissa - 1.0
    n = whole(exponent, x)
    # The product of f and 1 / log(2) in two parts: first is exact.
    high = high_part(f)
    first = high * _INVERSE_2[0]
    low = fma(f - high, _INVERSE_2[0], f * _INVERSE_2[1])
    low = fma(f * f, polynomial(f, *_LOG_2), low)
    total = n + first
    return _with_limits(x, total + ((first - (total - n)) + low))


def _with_limits(x: Value, result: Value) -> Value:
    """Return a logarithm of what is positive and finite, and those of the rest."""
    special = select(x.equals(0.0), -math.inf, select(x < 0.0, NAN, x))
    return select((x > 0.0) & (x < math.inf), result, special)
