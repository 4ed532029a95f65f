"""sin, cos, tan, and their inverses.

Every argument is reduced in the same way to a multiple of pi / 2 and an angle of at most pi / 4. A
table has, for each exponent, 2 / pi times the power of two, less what makes whole turns. There is
one path, since a branch would keep loops from being vectorized.

References
----------
M. Payne and R. Hanek, "Radian reduction for trigonometric functions", ACM SIGNUM Newsletter 18,
1983. J.-M. Muller, "Elementary Functions", 3rd edition, Birkhäuser 2016, chapter 11.
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapters 10 and 11.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction

from targets.cpu.math.vector import coefficients
from targets.cpu.math.vector.expressions import (
    Value,
    absolute,
    bits,
    copy_sign,
    fast_two_sum,
    floating,
    fma,
    low_half,
    polynomial,
    rounded,
    select,
    square_root,
    table_row,
    to_double,
    to_single,
    two_product,
    two_sum,
)

__all__ = ["acos", "asin", "atan", "atan2", "cos", "sin", "tan"]

_h = float.fromhex

#: pi / 2 in two parts.
_HALF_PI = {
    "float": (_h("0x1.921fb6p0"), _h("-0x1.777a5cp-25")),
    "double": (_h("0x1.921fb54442d18p0"), _h("0x1.1a62633145c07p-54")),
}
#: Bits of 2 / pi after the point that a table needs: the largest exponent, and four words.
_BITS = 1400


def sin(x: Value) -> Value:
    quadrant, sine, cosine = _parts(x)
    odd = (quadrant & 1).equals(1)
    return _signed(select(odd, cosine, sine), (quadrant & 2), bits(x))


def cos(x: Value) -> Value:
    quadrant, sine, cosine = _parts(x)
    odd = (quadrant & 1).equals(1)
    return _signed(select(odd, sine, cosine), (quadrant + 1) & 2, None)


def tan(x: Value) -> Value:
    quadrant, sine, cosine = _parts(x)
    odd = (quadrant & 1).equals(1)
    quotient = select(odd, cosine, sine) / select(odd, sine, cosine)
    return _signed(quotient, (quadrant & 1) << 1, bits(x))


def _signed(value: Value, two: Value, like: Value | None) -> Value:
    """Return a value with its sign turned where an integer is 2, and where another is negative."""
    turned = two << (30 if value.is_single else 62)
    if like is not None:
        turned = turned ^ (like & (-(2**31) if value.is_single else -(2**63)))
    return floating(bits(value) ^ turned)


def _parts(x: Value) -> tuple[Value, Value, Value]:
    """Return of \\|x\\| the multiple of pi / 2, and sine and cosine of the rest."""
    if x.is_single:
        quadrant, r = _reduced_single(absolute(x))
        low = None
    else:
        quadrant, r, low = _reduced_double(absolute(x))
    z = r * r
    cubic = r * z * polynomial(z, *coefficients.SIN[x.kind])
    quartic = z * z * polynomial(z, *coefficients.COS[x.kind])
    half = z * 0.5
    near_one = 1.0 - half
    if low is None:
        return quadrant, r + cubic, near_one + (((1.0 - near_one) - half) + quartic)
    sine = r + fma(low, near_one, cubic)
    return quadrant, sine, near_one + (((1.0 - near_one) - half) + (quartic - r * low))


# -- reduction ------------------------------------------------------------------------------------


def _row(magnitude: Value) -> tuple[Value, Value]:
    """Return a table's row, and what its numbers are multiplied with: 2**row less than a number."""
    places, bias = (23, 127) if magnitude.is_single else (52, 1023)
    pattern = bits(magnitude)
    exponent = (pattern >> places) - bias
    is_large = exponent > 0
    mantissa = floating((pattern & ((1 << places) - 1)) | (bias << places))
    return select(is_large, exponent, 0), select(is_large, mantissa, magnitude)


def _reduced_single(magnitude: Value) -> tuple[Value, Value]:
    """Return quadrant and angle of a float32, by products in float64; the first is exact."""
    row, narrow = _row(magnitude)
    factor = to_double(narrow)
    first, second = table_row(row, "2_over_pi.f32", _single_table())
    product = factor * first
    n, quadrant = rounded(product)
    turns = fma(factor, second, product - n)
    return low_half(quadrant), to_single(turns * _HALF_PI["double"][0])


def _reduced_double(magnitude: Value) -> tuple[Value, Value, Value]:
    """Return quadrant and angle of a float64; the angle is in two parts.

    Of the product with four words of 2 / pi each part is exact, and whole numbers are taken off as
    soon as they appear.
    """
    row, factor = _row(magnitude)
    words = table_row(row, "2_over_pi.f64", _double_table())
    product, product_rest = two_product(factor, words[0])
    # The product is below 2**55, and of its whole part two bits matter: multiples of 32, then of 4.
    for unit in (2.0**5, 2.0**2):
        magic = 1.5 * 2.0**52 * unit
        product = product - ((product + magic) - magic)
    n_first, first_bits = rounded(product + product_rest)
    whole_part = (product + product_rest) - n_first
    product, second_rest = two_product(factor, words[1])
    n_second, second_bits = rounded(product)
    total, total_rest = two_sum(whole_part, product - n_second)
    n_third, third_bits = rounded(total)
    total = total - n_third
    product, third_rest = two_product(factor, words[2])
    small, small_rest = two_sum(second_rest, product)
    turns, rest = two_sum(total, small)
    rest = rest + (total_rest + (small_rest + fma(factor, words[3], third_rest)))
    turns, rest = fast_two_sum(turns, rest)
    high, low = _HALF_PI["double"]
    angle, angle_rest = two_product(turns, turns.constant(high))
    angle_rest = fma(turns, low, fma(rest, high, angle_rest))
    # Small arguments need no reduction, and stay exact, subnormal numbers among them.
    is_small = magnitude < 0.75
    angle = select(is_small, magnitude, angle)
    angle_rest = select(is_small, 0.0, angle_rest)
    return first_bits + second_bits + third_bits, angle, angle_rest


# -- tables ---------------------------------------------------------------------------------------


@functools.cache
def _two_over_pi() -> Fraction:
    """Return 2 / pi to `_BITS` bits, by Machin's formula for pi."""
    unit = 1 << (_BITS + 64)

    def arc_cotangent(n: int) -> int:
        term = total = unit // n
        k, sign = 3, -1
        while term:
            term //= n * n
            total += sign * (term // k)
            k, sign = k + 2, -sign
        return total

    pi = 4 * (4 * arc_cotangent(5) - arc_cotangent(239))
    return Fraction((2 * unit << _BITS) // pi, 1 << _BITS)


def _value(exponent: int, places: int) -> Fraction:
    """Return 2 / pi * 2**exponent less whole turns.

    It is multiplied with a number from 1 to 2 that has so many places after the point, in units
    of the last place. For exponent 0 the number may be smaller, so nothing is taken off.
    """
    if not exponent:
        return _two_over_pi()
    shift = exponent - places
    power = Fraction(1 << shift) if shift > 0 else Fraction(1, 1 << -shift)
    return (_two_over_pi() * power) % Fraction(4) * (1 << places)


def _split(value: Fraction, count: int) -> tuple[float, ...]:
    """Return a number as a sum of so many float64, the largest first."""
    words = []
    for _ in range(count):
        words.append(float(value))
        value -= Fraction(words[-1])
    return tuple(words)


def _cut(value: Fraction, unit: float, count: int) -> tuple[float, ...]:
    """Return the multiple of a unit below a number, and the rest in so many float64."""
    first = float(value // Fraction(unit)) * unit
    return first, *_split(value - Fraction(first), count)


@functools.cache
def _single_table() -> list[tuple[float, ...]]:
    # The first word has 29 places at most: its product with a float32 is exact.
    rows = [_cut(_value(0, 23), 2.0**-29, 1)]
    rows += [_cut(_value(exponent, 23), 2.0**-4, 1) for exponent in range(1, 128)]
    return [*rows, (math.nan, math.nan)]


@functools.cache
def _double_table() -> list[tuple[float, ...]]:
    # The product with the first word is a multiple of 2**-51: less its whole part it is exact. A
    # number that may have a fraction has no such word.
    rows = [(0.0, *_split(_value(0, 52), 3))]
    rows += [_cut(_value(exponent, 52), 2.0, 3) for exponent in range(1, 1024)]
    return [*rows, (math.nan,) * 4]


# -- asin, acos, atan and atan2 -------------------------------------------------------------------


#: Twice these numbers is too large.
_LARGE = {"float": 2.0**126, "double": 2.0**1022}


def asin(x: Value) -> Value:
    is_large, t, rest = _arc_sine(absolute(x))
    high, low = _HALF_PI[x.kind]
    total, error = fast_two_sum(x.constant(high), t * -2.0)
    large = total + (error + fma(rest, -2.0, low))
    return copy_sign(select(is_large, large, t + rest), x)


def acos(x: Value) -> Value:
    is_large, t, rest = _arc_sine(absolute(x))
    high, low = _HALF_PI[x.kind]
    # pi / 2 less an angle, or pi less twice an angle of the other half.
    factor = select(is_large, x.constant(2.0), 1.0)
    total, error = fast_two_sum(factor * high, -(factor * copy_sign(t, select(is_large, 1.0, x))))
    below = total + (error + factor * (low - copy_sign(rest, select(is_large, 1.0, x))))
    return select(is_large & (x > 0.0), (t + rest) * 2.0, below)


def _arc_sine(magnitude: Value) -> tuple[Value, Value, Value]:
    """Return whether a number is above 1/2, and its arc sine; there, half its arc cosine.

    The angle is in two parts.
    """
    is_large = magnitude > 0.5
    z = select(is_large, (1.0 - magnitude) * 0.5, magnitude * magnitude)
    t = select(is_large, square_root(z), magnitude)
    return is_large, t, t * z * polynomial(z, *coefficients.ASIN[t.kind])


def atan(x: Value) -> Value:
    magnitude = absolute(x)
    one = x.constant(1.0)
    return copy_sign(_angle(magnitude, one, magnitude > 1.0, None), x)


def atan2(y: Value, x: Value) -> Value:
    """Write the angle of a point."""
    across, along = absolute(y), absolute(x)
    both_infinite = across.equals(math.inf) & along.equals(math.inf)
    is_origin = across.equals(0.0) & along.equals(0.0)
    across = select(both_infinite, 1.0, across)
    along = select(both_infinite | is_origin, 1.0, along)
    is_left = bits(x) < 0
    return copy_sign(_angle(across, along, across > along, is_left), y)


def _angle(across: Value, along: Value, is_steep: Value, is_left: Value | None) -> Value:
    """Return the angle of a point with nonnegative coordinates, not both 0 or infinite.

    `is_steep` says whether the first is larger than the second, `is_left` whether the point
    is reflected to the other side.
    """
    kind = across.kind
    smaller, larger = select(is_steep, along, across), select(is_steep, across, along)
    # Large coordinates are scaled, so that their sum does not overflow.
    scale = select(larger > _LARGE[kind], across.constant(0.25), 1.0)
    smaller, larger = smaller * scale, larger * scale
    is_infinite = larger.equals(math.inf)
    is_wide = (smaller > larger * 0.5) & ~is_infinite
    numerator = select(is_wide, smaller - larger, smaller)
    denominator = select(is_wide, smaller + larger, larger)
    t = numerator / denominator
    z = t * t
    angle = fma(t * z, polynomial(z, *coefficients.ATAN[kind]), t)
    # The angle is turned by a multiple of pi / 4.
    high, low = (part * 0.5 for part in _HALF_PI[kind])
    turns = select(is_wide, across.constant(1.0), 0.0)
    turns = select(is_steep, 2.0 - turns, turns)
    angle = select(is_steep, -angle, angle)
    if is_left is not None:
        turns = select(is_left, 4.0 - turns, turns)
        angle = select(is_left, -angle, angle)
    return fma(turns, high, fma(turns, low, angle))
