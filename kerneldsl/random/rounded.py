"""Logarithms and sines of float32 operations that are rounded once each: alike on every target.

These are conversions, sums, single products and ``kd.fma``. No product meets a sum that a compiler
could contract it with.

References
----------
W. J. Cody and W. Waite, "Software Manual for the Elementary Functions", Prentice-Hall (1980):
reductions of the argument. The polynomials interpolate at Chebyshev's nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func
from kerneldsl.language.intrinsics.values import bitcast, fma

__all__ = ["negative_logarithm", "sine_and_cosine", "with_sign"]


@func
def negative_logarithm(word: Any) -> Any:
    """Return ``-ln u`` as float32, of ``u = (word + 1) / 2**32``, within 2 ulp.

    Examples
    --------
    >>> float(negative_logarithm(2**32 - 1)), float(negative_logarithm(2**31 - 1))
    (0.0, 0.6931471824645996)
    """
    # The power of 2 by which the number is from 2/3 to 4/3, as the exponent of a float.
    near = fma(np.float32(word), np.float32(2.0**-32), np.float32(2.0**-32))
    bits = bitcast(near, np.int32)
    power = np.int32(np.int32(bits - np.int32(0x3F2AAAAB)) & np.int32(-0x800000))
    # The distance from that power is exact, where the number itself would be rounded. A
    # GPU shifts by a count of 32 bits without a test of it.
    whole = np.int64(1) << np.int32(np.int32(power >> np.int32(23)) + np.int32(32))
    unit = bitcast(np.int32(np.int32(0x2F800000) - power), np.float32)
    beyond = np.float32(np.int32(np.int64(word) + np.int64(1) - whole)) * unit
    # (x - ln(1 + x)) / x**2, of |x| up to 1/3, with an error below 2**-24.
    quotient = fma(np.float32(0.124222), beyond, np.float32(-0.13748309))
    quotient = fma(quotient, beyond, np.float32(0.12288722))
    quotient = fma(quotient, beyond, np.float32(-0.14055812))
    quotient = fma(quotient, beyond, np.float32(0.16673316))
    quotient = fma(quotient, beyond, np.float32(-0.20007233))
    quotient = fma(quotient, beyond, np.float32(0.24999945))
    quotient = fma(quotient, beyond, np.float32(-0.33333272))
    quotient = fma(quotient, beyond, np.float32(0.5))
    part = fma(beyond * beyond, quotient, -beyond)
    return fma(np.float32(power), np.float32(-0.6931471805599453 * 2.0**-23), part)


@func
def sine_and_cosine(word: Any) -> Any:
    """Return the sizes of ``sin(2 pi v)`` and ``cos(2 pi v)``, of the upper 26 bits as ``v``.

    They are float32, within 1.5 ulp, and each may have a sign that
    :func:`with_sign` corrects.
    """
    # The distance from the next quarter of a turn, of which 1 is an eighth, in 24 bits.
    eighths = bitcast(np.uint32(np.uint64(word) << np.uint64(2) & np.uint64(0xFFFFFF00)), np.int32)
    x = np.float32(eighths) * np.float32(2.0**-31)
    square = x * x
    # (sin(pi/4 x) / x - pi/4) / x**2 and (cos(pi/4 x) - 1) / x**2, with errors below 2**-26.
    odd = fma(np.float32(-3.6109115e-05), square, np.float32(0.0024902197))
    odd = fma(odd, square, np.float32(-0.0807455))
    odd = fma(odd, square, np.float32(-2.1855694e-08))  # what pi/4 is rounded by
    sine = fma(x, np.float32(0.7853982), x * odd)
    even = fma(np.float32(3.5419528e-06), square, np.float32(-0.0003259614))
    even = fma(even, square, np.float32(0.015854338))
    even = fma(even, square, np.float32(-0.30842513))
    cosine = fma(even, square, np.float32(1))
    is_odd = (np.uint64(word) + np.uint64(0x20000000)) & np.uint64(0x40000000)
    return (cosine, sine) if is_odd else (sine, cosine)


@func
def with_sign(size: Any, word: Any, turn: Any) -> Any:
    """Return a sine with its sign, or with a quarter as `turn` a cosine, of `sine_and_cosine`.

    The quarter of a turn is 0x40000000. What is returned is no product for a compiler.
    """
    half = np.uint64(word) + np.uint64(0x20000000) + np.uint64(turn) & np.uint64(0x80000000)
    return bitcast(np.uint32(bitcast(size, np.uint32) ^ np.uint32(half)), np.float32)
