"""log, log2, log10, log1p, pow, cbrt and hypot.

A positive number is (1 + f) * 2**n with 1 + f from 2/3 to 4/3. In float32 a polynomial in f gives
the logarithm of 1 + f, in float64 one in s**2 of s = f / (2 + f).

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapter 5. J.-M. Muller, "Elementary Functions", 3rd edition, Birkhäuser 2016, chapter 11.
P. T. P. Tang, "Table-driven implementation of the logarithm function in IEEE floating-point
arithmetic", ACM TOMS 16, 1990. J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 2nd
edition, Birkhäuser 2018, chapter 4: sums and products in two parts. ISO/IEC 9899:2018, annex
F.10.4: special results.
"""

from __future__ import annotations

import math

from targets.cpu.math.vector import coefficients
from targets.cpu.math.vector.exponentials import LOG2
from targets.cpu.math.vector.expressions import (
    Value,
    absolute,
    bits,
    copy_sign,
    fast_two_sum,
    fma,
    high_part,
    is_whole,
    maximum,
    minimum,
    polynomial,
    power_of_two,
    rounded,
    scaled,
    select,
    split,
    square_root,
    to_double,
    to_single,
    two_product,
    two_sum,
    whole,
)

__all__ = ["cbrt", "hypot", "log", "log1p", "log2", "log10", "pow"]

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
#: Bounds of the argument: from the first on, 1 + x is no more exact than x; below the second,
#: log1p(x) is x.
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
    # The sum is rounded, but x * 2**-n + (2**-n - 1) is available in two parts.
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
    special = select(x.equals(0.0), -math.inf, select(x < 0.0, math.nan, x))
    return select((x > 0.0) & (x < math.inf), result, special)


# -- pow, cbrt and hypot --------------------------------------------------------------------------


#: 1 / log(2) and 2 / 3, in two parts.
_INVERSE_OF_LOG2 = (_h("0x1.71547652b82fep+0"), _h("0x1.777d0ffda0d24p-56"))
_TWO_THIRDS = (_h("0x1.5555555555555p-1"), _h("0x1.5555555555555p-55"))
#: The cube roots of 2 and 1/2.
_ROOTS = (_h("0x1.428a2f98d728bp+0"), _h("0x1.965fea53d6e3dp-1"))


def pow(x: Value, y: Value) -> Value:
    """Write x**y."""
    magnitude = absolute(x)
    power = _power_in_double(magnitude, y) if x.is_single else _power(magnitude, y)
    is_limit = magnitude.equals(0.0) | magnitude.equals(math.inf)
    limit = select((magnitude > 1.0) ^ (y < 0.0), x.constant(math.inf), 0.0)
    power = select(is_limit, limit, power)
    exponent = absolute(y)
    is_integer = is_whole(exponent)
    is_odd = is_integer & ~is_whole(exponent * 0.5)
    power = select(is_odd & (bits(x) < 0), -power, power)
    power = select((x < 0.0) & (x > -math.inf) & ~is_integer, math.nan, power)
    power = select(x.is_nan() | y.is_nan(), math.nan, power)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, power)


def _power_in_double(magnitude: Value, exponent: Value) -> Value:
    """Return a power of a positive float32, computed in float64."""
    # The exponent is clamped, so that no product has an infinite factor.
    y = to_double(maximum(minimum(exponent, 2.0**127), -(2.0**127)))
    x = to_double(magnitude)
    mantissa, shift = split(x, LOWEST)
    f = mantissa - 1.0
    s = f / (f + 2.0)
    logarithm = fma(s, polynomial(s * s, *coefficients.LOG_2_QUOTIENT["double"]), whole(shift, x))
    product = maximum(minimum(y * logarithm, 200.0), -200.0)
    n, n_bits = rounded(product)
    result = polynomial(product - n, *coefficients.EXP2_SHORT["double"])
    return to_single(result * power_of_two(n_bits, x))


def _power(x: Value, exponent: Value) -> Value:
    """Return a power of a positive float64: logarithm and product have two parts."""
    # Beyond, the power of any x but 1 is 0 or infinite.
    y = maximum(minimum(exponent, 2.0**70), -(2.0**70))
    mantissa, shift = split(x, LOWEST)
    high, low = _logarithm(mantissa)
    first, rest = two_product(high, x.constant(_INVERSE_OF_LOG2[0]))
    rest = rest + fma(high, _INVERSE_OF_LOG2[1], low * _INVERSE_OF_LOG2[0])
    total, tail = fast_two_sum(whole(shift, x), first)
    product, error = two_product(y, total)
    error = fma(y, tail + rest, error)
    is_inside = absolute(product) < 1100.0
    limited = maximum(minimum(product, 1100.0), -1100.0)
    n, n_bits = rounded(limited)
    r = (limited - n) + select(is_inside, error, 0.0)
    return scaled(polynomial(r, *coefficients.EXP2["double"]), n_bits)


def _logarithm(m: Value) -> tuple[Value, Value]:
    """Return the natural logarithm of a number from 2/3 to 4/3 in two parts.

    It is 2 * s + 2/3 * s**3 + …, with s = (m - 1) / (m + 1) in two parts, too.
    """
    f = m - 1.0
    d, d_rest = fast_two_sum(m.constant(2.0), f)
    inverse = 1.0 / d
    s = f * inverse
    product, rest = two_product(s, d)
    s_rest = (((f - product) - rest) - s * d_rest) * inverse
    z, z_rest = two_product(s, s)
    z_rest = fma(s * 2.0, s_rest, z_rest)
    cube, cube_rest = two_product(z, s)
    cube_rest = cube_rest + fma(z_rest, s, z * s_rest)
    factor, factor_rest = fast_two_sum(
        m.constant(_TWO_THIRDS[0]), z * polynomial(z, *coefficients.LOG_QUOTIENT_5["double"])
    )
    factor_rest = factor_rest + _TWO_THIRDS[1]
    term, term_rest = two_product(cube, factor)
    term_rest = term_rest + fma(cube, factor_rest, cube_rest * factor)
    total, total_rest = fast_two_sum(s * 2.0, term)
    return fast_two_sum(total, total_rest + fma(s_rest, 2.0, term_rest))


def cbrt(x: Value) -> Value:
    """Write the cube root: Newton's iteration for the inverse, and for float64 one for itself."""
    magnitude = absolute(x)
    wide = to_double(magnitude) if x.is_single else magnitude
    mantissa, exponent = split(wide, LOWEST)
    third, third_bits = rounded(whole(exponent, wide) * (1.0 / 3.0))
    rest = whole(exponent, wide) - third * 3.0
    w = polynomial(mantissa, *coefficients.CBRT["double"])
    for _ in range(1 if x.is_single else 2):
        w = fma(w * (1.0 / 3.0), 1.0 - mantissa * w * (w * w), w)
    is_up, is_down = rest > 0.5, rest < -0.5
    turned = select(is_up, _ROOTS[0], select(is_down, wide.constant(_ROOTS[1]), 1.0))
    root = mantissa * w * w * turned
    if not x.is_single:
        cubed = select(is_up, mantissa * 2.0, select(is_down, mantissa * 0.5, mantissa))
        square, square_rest = two_product(root, root)
        cube, cube_rest = two_product(square, root)
        error = ((cube - cubed) + cube_rest) + square_rest * root
        root = root - error * root / (cubed * 3.0)
    result = root * power_of_two(third_bits, wide)
    narrow = to_single(result) if x.is_single else result
    is_special = magnitude.equals(0.0) | ~(magnitude < math.inf)
    return select(is_special, x, copy_sign(narrow, x))


def hypot(x: Value, y: Value) -> Value:
    """Write the length of a vector."""
    a, b = absolute(x), absolute(y)
    if x.is_single:
        wide_a, wide_b = to_double(a), to_double(b)
        length = to_single(square_root(fma(wide_a, wide_a, wide_b * wide_b)))
    else:
        larger = select(a > b, a, b)
        one = a.constant(1.0)
        down, up = 2.0**-600, 2.0**600
        scale = select(larger > 2.0**500, down, select(larger < 2.0**-400, up, one))
        back = select(larger > 2.0**500, up, select(larger < 2.0**-400, down, one))
        a_scaled, b_scaled = a * scale, b * scale
        length = square_root(fma(a_scaled, a_scaled, b_scaled * b_scaled)) * back
    is_infinite = a.equals(math.inf) | b.equals(math.inf)
    return select(is_infinite, math.inf, length)
