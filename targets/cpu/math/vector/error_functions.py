"""erf and erfc.

References
----------
M. M. Shepherd and J. G. Laframboise, "Chebyshev Approximation of (1 + 2 x) exp(x**2) erfc x in
0 <= x < infinity", Mathematics of Computation 36, 1981.
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
from targets.cpu.math.vector.numbers import high_part, scaled

__all__ = ["erf", "erfc"]

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
