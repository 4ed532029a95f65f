"""sinh, cosh and tanh: of the exponential function, or polynomials if that would cancel.

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapters 12 and 13.
"""

from __future__ import annotations

from targets.cpu.math.vector import coefficients
from targets.cpu.math.vector.exponentials import exponential
from targets.cpu.math.vector.expressions import (
    Value,
    absolute,
    copy_sign,
    fma,
    minimum,
    polynomial,
    select,
)
from targets.cpu.math.vector.numbers import fast_two_sum, scaled

__all__ = ["cosh", "sinh", "tanh"]

#: Beyond it, sinh and cosh are infinite.
_LARGEST = {"float": 90.0, "double": 711.0}
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
    number, exponent = exponential(minimum(absolute(x), _LARGEST[x.kind]))
    return scaled(number, exponent - 1)


def _odd(x: Value, table: dict[str, tuple[float, ...]]) -> Value:
    """Return x + x**3 * p(x**2)."""
    z = x * x
    return fma(x * z, polynomial(z, *table[x.kind]), x)
