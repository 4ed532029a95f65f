"""exp, exp2 and expm1.

The argument is n * log(2) + r with a whole number n and a magnitude of r of at most log(2) / 2.
2**n is multiplied to a polynomial in r.

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapter 6. J.-M. Muller, "Elementary Functions", 3rd edition, Birkhäuser 2016, chapter 11.
"""

from __future__ import annotations

from targets.cpu.math.vector import coefficients
from targets.cpu.math.vector.expressions import (
    Value,
    absolute,
    fma,
    maximum,
    minimum,
    polynomial,
    select,
)
from targets.cpu.math.vector.numbers import fast_two_sum, power_of_two, rounded, scaled

__all__ = ["exp", "exp2", "expm1", "exponential"]

_h = float.fromhex

#: 1 / log(2), and log(2) in two parts; the first has few places.
INVERSE = {"float": _h("0x1.715476p+0"), "double": _h("0x1.71547652b82fep+0")}
LOG2 = {
    "float": (_h("0x1.62e4p-1"), _h("0x1.7f7d1cp-20")),
    "double": (_h("0x1.62e42ffp-1"), _h("-0x1.718432a1b0e26p-35")),
}
#: Beyond these every result is 0, infinity or, of expm1, -1.
_LIMITS = {"float": (-104.0, 89.0), "double": (-746.0, 710.0)}
_LIMITS_2 = {"float": (-151.0, 129.0), "double": (-1076.0, 1025.0)}
_LEAST_MINUS_1 = {"float": -18.0, "double": -39.0}
#: Below it, expm1(x) is x.
_TINY = {"float": 2.0**-27, "double": 2.0**-56}


def exp(x: Value) -> Value:
    """Write e**x."""
    least, largest = _LIMITS[x.kind]
    r, _, exponent = _reduced(maximum(minimum(x, largest), least))
    return scaled(fma(r * r, polynomial(r, *coefficients.EXP[x.kind]), r) + 1.0, exponent)


def exponential(high: Value, low: Value | None = None) -> tuple[Value, Value]:
    """Return a number from 0.7 to 1.5, and n: their product with 2**n is e**(high + low).

    The number is within 0.6 units of the last place. The argument is in the range of exp, and its
    low part small against 1.
    """
    r, _, exponent = _reduced(high)
    if low is not None:
        r = r + low
    total, rest = fast_two_sum(r.constant(1.0), r)
    return total + fma(r * r, polynomial(r, *coefficients.EXP[r.kind]), rest), exponent


def exp2(x: Value) -> Value:
    """Write 2**x."""
    least, largest = _LIMITS_2[x.kind]
    limited = maximum(minimum(x, largest), least)
    n, exponent = rounded(limited)
    return scaled(polynomial(limited - n, *coefficients.EXP2[x.kind]), exponent)


def expm1(x: Value) -> Value:
    """Write e**x - 1."""
    largest = _LIMITS[x.kind][1]
    r, rest, exponent = _reduced(maximum(minimum(x, largest), _LEAST_MINUS_1[x.kind]))
    # Half of the result: 2**n itself may be too large a number.
    half = power_of_two(exponent - 1, x)
    total, low = fast_two_sum(half - 0.5, half * r)
    small = fma(r * r, polynomial(r, *coefficients.EXP[x.kind]), rest)
    result = (total + fma(half, small, low)) * 2.0
    return select(absolute(x) < _TINY[x.kind], x, result)


def _reduced(x: Value) -> tuple[Value, Value, Value]:
    """Return r, what rounding took from it, and n of the argument n * log(2) + r."""
    high, low = LOG2[x.kind]
    n, exponent = rounded(x * INVERSE[x.kind])
    first = fma(n, -high, x)
    r = fma(n, -low, first)
    return r, fma(n, -low, first - r), exponent
