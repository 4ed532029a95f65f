"""exp, exp2, expm1, and what they give: sinh, cosh, tanh, erf and erfc.

The argument is n * log(2) + r with a whole number n and a magnitude of r of at most log(2) / 2.
2**n is multiplied to a polynomial in r.

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapters 6, 12 and 13. J.-M. Muller, "Elementary Functions", 3rd edition, Birkhäuser 2016, chapter
11. M. M. Shepherd and J. G. Laframboise, "Chebyshev Approximation of (1 + 2 x) exp(x**2) erfc x in
0 <= x < infinity", Mathematics of Computation 36, 1981.
"""

from __future__ import annotations

from targets.cpu.math.vector import coefficients
from targets.cpu.math.vector.expressions import (
    Value,
    absolute,
    copy_sign,
    fast_two_sum,
    fma,
    high_part,
    maximum,
    minimum,
    polynomial,
    power_of_two,
    rounded,
    scaled,
    select,
)

__all__ = ["cosh", "erf", "erfc", "exp", "exp2", "expm1", "exponential", "sinh", "tanh"]

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


# -- sinh, cosh and tanh: polynomials if a difference of exponentials would cancel
# -------------------


#: Beyond it, sinh and cosh are infinite.
_LARGEST_HYPERBOLIC = {"float": 90.0, "double": 711.0}
#: Below it, tanh is a polynomial.
_CHANGE = float.fromhex("0x1.198p-1")


def sinh(x: Value) -> Value:
    """Write (e**x - e**-x) / 2."""
    half = _half_exponential(x)
    magnitude = absolute(x)
    small = _odd(magnitude, coefficients.SINH)
    return copy_sign(select(magnitude < 1.0, small, half - 0.25 / half), x)


def cosh(x: Value) -> Value:
    """Write (e**x + e**-x) / 2."""
    half = _half_exponential(x)
    return half + 0.25 / half


def tanh(x: Value) -> Value:
    """Write (e**x - e**-x) / (e**x + e**-x)."""
    magnitude = absolute(x)
    double = minimum(magnitude, 25.0) * 2.0
    # 1 - 2 / (e**2x + 1), with what rounding takes from the sum.
    total, rest = fast_two_sum(scaled(*exponential(double)), x.constant(1.0))
    part = 2.0 / total
    large = 1.0 - fma(part * part * -0.5, rest, part)
    small = _odd(magnitude, coefficients.TANH)
    return copy_sign(select(magnitude < _CHANGE, small, large), x)


def _half_exponential(x: Value) -> Value:
    """Return e**|x| / 2."""
    number, exponent = exponential(minimum(absolute(x), _LARGEST_HYPERBOLIC[x.kind]))
    return scaled(number, exponent - 1)


def _odd(x: Value, table: dict[str, tuple[float, ...]]) -> Value:
    """Return x + x**3 * p(x**2)."""
    z = x * x
    return fma(x * z, polynomial(z, *table[x.kind]), x)


# -- erf and erfc ---------------------------------------------------------------------------------


#: The middle of the interval, and from where on erfc is 0.
_CENTRE = {"float": 2.0, "double": 4.0}
_LARGEST = {"float": 10.25, "double": 27.5}


def erf(x: Value) -> Value:
    """Write the error function."""
    magnitude = absolute(x)
    large = copy_sign(1.0 - _complement(magnitude), x)
    return select(magnitude < 1.0, _near_zero(x), large)


def erfc(x: Value) -> Value:
    """Write the complementary error function."""
    positive = _complement(absolute(x))
    far = select(x < 0.0, 2.0 - positive, positive)
    return select(absolute(x) < 0.5, 1.0 - _near_zero(x), far)


def _near_zero(x: Value) -> Value:
    """Return erf of a magnitude of at most 1."""
    return fma(x, polynomial(x * x, *coefficients.ERF[x.kind]), x)


def _complement(magnitude: Value) -> Value:
    """Return erfc of what is not negative."""
    kind = magnitude.kind
    a = minimum(magnitude, _LARGEST[kind])
    q = (a - _CENTRE[kind]) / (a + _CENTRE[kind])
    p = polynomial(q, *coefficients.ERFC[kind])
    # The square in two parts: high is exact.
    part = high_part(a)
    high, low = part * part, (a - part) * (a + part)
    number, exponent = exponential(-high, -low)
    return scaled(p * number / fma(a, 2.0, 1.0), exponent)
