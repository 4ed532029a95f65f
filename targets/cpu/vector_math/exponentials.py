"""exp and exp2.

The argument is n * log(2) + r with a whole number n and a magnitude of r of at most log(2) / 2;
2**n is multiplied to a polynomial in r.

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall 1980,
chapter 6. J.-M. Muller, "Elementary Functions", 3rd edition, Birkhäuser 2016, chapter 11.
"""

from __future__ import annotations

from targets.cpu.vector_math.expressions import Value, fma, maximum, minimum, polynomial
from targets.cpu.vector_math.numbers import rounded, scaled

__all__ = ["exp", "exp2"]

_h = float.fromhex

#: 1 / log(2), and log(2) in two parts, of which the first has few places.
_INVERSE = _h("0x1.715476p+0")
_LOG2 = (_h("0x1.62e4p-1"), _h("0x1.7f7d1cp-20"))
#: (exp(r) - 1 - r) / r**2, to 2.8e-10 of exp(r).
_EXP = (
    0.5,
    _h("0x1.555556p-3"),
    _h("0x1.555502p-5"),
    _h("0x1.110ff2p-7"),
    _h("0x1.6d2e02p-10"),
    _h("0x1.a26758p-13"),
)
#: 2**r, to 3.7e-9.
_EXP2 = (
    1.0,
    _h("0x1.62e43p-1"),
    _h("0x1.ebfbd8p-3"),
    _h("0x1.c6af76p-5"),
    _h("0x1.3b30ap-7"),
    _h("0x1.5f0b82p-10"),
    _h("0x1.3fa208p-13"),
)


def exp(x: Value) -> Value:
    """Write e**x."""
    limited = maximum(minimum(x, 89.0), -104.0)
    n, exponent = rounded(limited * _INVERSE)
    r = fma(n, -_LOG2[0], limited)
    r = fma(n, -_LOG2[1], r)
    return scaled(fma(r * r, polynomial(r, *_EXP), r) + 1.0, exponent)


def exp2(x: Value) -> Value:
    """Write 2**x."""
    limited = maximum(minimum(x, 129.0), -151.0)
    n, exponent = rounded(limited)
    return scaled(polynomial(limited - n, *_EXP2), exponent)
