"""pow, cbrt and hypot.

References
----------
J.-M. Muller et al., "Handbook of Floating-Point Arithmetic", 2nd edition, Birkhäuser 2018, chapter
4: sums and products in two parts. ISO/IEC 9899:2018, annex F.10.4: special results.
"""

from __future__ import annotations

import math

from targets.cpu.math.vector import coefficients
from targets.cpu.math.vector.expressions import (
    Value,
    absolute,
    bits,
    copy_sign,
    fma,
    maximum,
    minimum,
    polynomial,
    select,
    square_root,
    to_double,
    to_single,
)
from targets.cpu.math.vector.logarithms import LOWEST
from targets.cpu.math.vector.numbers import (
    NAN,
    fast_two_sum,
    is_whole,
    power_of_two,
    rounded,
    scaled,
    split,
    two_product,
    whole,
)

__all__ = ["cbrt", "hypot", "pow"]

_h = float.fromhex

#: 1 / log(2) and 2 / 3, in two parts.
_INVERSE = (_h("0x1.71547652b82fep+0"), _h("0x1.777d0ffda0d24p-56"))
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
    power = select((x < 0.0) & (x > -math.inf) & ~is_integer, NAN, power)
    power = select(x.is_nan() | y.is_nan(), NAN, power)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, power)


def _power_in_double(magnitude: Value, exponent: Value) -> Value:
    """Return a power of a positive float32, computed in float64."""
    # A product with infinity is to be none.
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
    """Return a power of a positive float64: logarithm and product are had in two parts."""
    # Beyond, the power of any x but 1 is 0 or infinite.
    y = maximum(minimum(exponent, 2.0**70), -(2.0**70))
    mantissa, shift = split(x, LOWEST)
    high, low = _logarithm(mantissa)
    first, rest = two_product(high, x.constant(_INVERSE[0]))
    rest = rest + fma(high, _INVERSE[1], low * _INVERSE[0])
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
