"""log, log2, log10 and log1p.

A positive number is (1 + f) * 2**n with 1 + f from 2/3 to 4/3. In float32 a polynomial in f gives
the logarithm of 1 + f, in float64 one in s**2 of s = f / (2 + f).

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapter 5. J.-M. Muller, "Elementary Functions", 3rd edition, Birkhäuser 2016, chapter 11.
P. T. P. Tang, "Table-driven implementation of the logarithm function in IEEE floating-point
arithmetic", ACM TOMS 16, 1990.
"""

from __future__ import annotations

import math

from targets.cpu.math.vector import coefficients
from targets.cpu.math.vector.exponentials import LOG2
from targets.cpu.math.vector.expressions import Value, absolute, fma, polynomial, select
from targets.cpu.math.vector.numbers import NAN, high_part, power_of_two, split, two_sum, whole

__all__ = ["LOWEST", "log", "log1p", "log2", "log10"]

_h = float.fromhex

#: 1 + f is from here to twice as much.
LOWEST = _h("0x1.555556p-1")
#: 1 / log(base) in two parts, the first of half the places; then the logarithm of 2.
_INVERSES = {
    ("float", 2): (_h("0x1.716p0"), _h("-0x1.7135a8p-13")),
    ("float", 10): (_h("0x1.bccp-2"), _h("-0x1.09d5b2p-15")),
    ("double", 2): (_h("0x1.7154768p0"), _h("-0x1.6a3e80f444178p-27")),
    ("double", 10): (_h("0x1.bcb7b18p-2"), _h("-0x1.6c8d78e6acaa4p-29")),
}
_LOGARITHMS_OF_2 = {
    ("float", 2): (1.0, 0.0),
    ("float", 10): (_h("0x1.3442p-2"), _h("-0x1.95ec1p-19")),
    ("double", 2): (1.0, 0.0),
    ("double", 10): (_h("0x1.3441350ap-2"), _h("-0x1.0c0219dc1da99p-39")),
}
#: From here on 1 + x is no more exact than x; below, log1p(x) is x.
_LARGE = {"float": 2.0**30, "double": 2.0**60}
_TINY = {"float": 2.0**-27, "double": 2.0**-56}


def log(x: Value) -> Value:
    """Write the natural logarithm."""
    mantissa, exponent = split(x, LOWEST)
    return _with_limits(x, _natural(mantissa - 1.0, whole(exponent, x)))


def log1p(x: Value) -> Value:
    """Write the natural logarithm of 1 + x."""
    total = x + 1.0
    mantissa, exponent = split(total, LOWEST)
    # The sum is rounded, but x * 2**-n + (2**-n - 1) is had in two parts.
    scale = power_of_two(exponent.constant(0) - exponent, x)
    f, rest = two_sum(x * scale, scale - 1.0)
    is_large = x > _LARGE[x.kind]
    f = select(is_large, mantissa - 1.0, f)
    rest = select(is_large, 0.0, rest - f * rest)
    result = _with_limits(total, _natural(f, whole(exponent, x), rest))
    return select(absolute(x) < _TINY[x.kind], x, result)


def log2(x: Value) -> Value:
    """Write the logarithm to base 2."""
    return _in_base(x, 2)


def log10(x: Value) -> Value:
    """Write the logarithm to base 10."""
    return _in_base(x, 10)


def _natural(f: Value, n: Value, rest: Value | None = None) -> Value:
    """Return log(1 + f) + n * log(2), and a small rest."""
    high, log2_low = LOG2[f.kind]
    low = n * log2_low if rest is None else fma(n, log2_low, rest)
    if f.is_single:
        tail = fma(f, polynomial(f, *coefficients.LOG["float"]), -0.5)
        return fma(n, high, f + fma(f * f, tail, low))
    half_square, more = _quotient(f)
    return fma(n, high, f - (half_square - (low + more)))


def _quotient(f: Value) -> tuple[Value, Value]:
    """Return f**2 / 2 and what log(1 + f) is more than f less it, in float64."""
    s = f / (f + 2.0)
    z = s * s
    half_square = f * f * 0.5
    polynomial_of_z = polynomial(z, *coefficients.LOG_QUOTIENT["double"])
    return half_square, s * fma(z, polynomial_of_z, half_square)


def _in_base(x: Value, base: int) -> Value:
    """Return the logarithm to base 2 or 10.

    The product of log(1 + f) and the inverse of the base's logarithm is computed in two parts; the
    first is exact.
    """
    inverse = _INVERSES[x.kind, base]
    of_2 = _LOGARITHMS_OF_2[x.kind, base]
    mantissa, exponent = split(x, LOWEST)
    f, n = mantissa - 1.0, whole(exponent, x)
    if x.is_single:
        high, square = high_part(f), f * f
        table = coefficients.LOG_2 if base == 2 else coefficients.LOG_10
        rest = f - high
        small = fma(f, inverse[1], square * polynomial(f, *table["float"]))
        low = fma(rest, inverse[0], small)
    else:
        half_square, tail = _quotient(f)
        high = high_part(f - half_square)
        rest = ((f - high) - half_square) + tail
        low = fma(rest, inverse[0], (rest + high) * inverse[1])
    first = high * inverse[0]
    large = n if base == 2 else n * of_2[0]
    if base == 10:
        low = fma(n, of_2[1], low)
    total = large + first
    return _with_limits(x, total + ((first - (total - large)) + low))


def _with_limits(x: Value, result: Value) -> Value:
    """Return a logarithm of what is positive and finite, and those of the rest."""
    special = select(x.equals(0.0), -math.inf, select(x < 0.0, NAN, x))
    return select((x > 0.0) & (x < math.inf), result, special)
