"""asin, acos, atan and atan2.

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapters 10 and 11.
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
    polynomial,
    select,
    square_root,
)
from targets.cpu.math.vector.numbers import fast_two_sum

__all__ = ["acos", "asin", "atan", "atan2"]

_h = float.fromhex

#: pi / 2 in two parts.
_HALF_PI = {
    "float": (_h("0x1.921fb6p0"), _h("-0x1.777a5cp-25")),
    "double": (_h("0x1.921fb54442d18p0"), _h("0x1.1a62633145c07p-54")),
}
#: Numbers of which twice is too large.
_LARGE = {"float": 2.0**126, "double": 2.0**1022}


def asin(x: Value) -> Value:
    """Write the arc sine."""
    is_large, t, rest = _arc_sine(absolute(x))
    high, low = _HALF_PI[x.kind]
    total, error = fast_two_sum(x.constant(high), t * -2.0)
    large = total + (error + fma(rest, -2.0, low))
    return copy_sign(select(is_large, large, t + rest), x)


def acos(x: Value) -> Value:
    """Write the arc cosine."""
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
    """Write the arc tangent."""
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

    `is_steep` says whether the first is larger than the second, `is_left` whether the point is to
    be reflected to the other side.
    """
    kind = across.kind
    smaller, larger = select(is_steep, along, across), select(is_steep, across, along)
    # Their sum is to be a number.
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
