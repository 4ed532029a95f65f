"""Normal numbers of a counter, by Box and Muller's transform.

With a radius ``sqrt(-2 ln u)`` and an angle ``2 pi v`` the numbers are the radius times the sine
and the cosine of the angle. The mean is 0 and the variance 1.

*float32*: every word gives one 32-bit number, ``u = (word + 1) / 2**32`` in (0, 1] and of the
upper 26 bits ``v``, so that the largest magnitude is 6.66. Logarithm, sine and cosine are computed
by conversions, sums, single products and ``kd.fma``: no product meets a sum that a compiler could
contract it with. They, the square root and the product are rounded once each. Thus all targets give
the same bits, unless ``fastmath`` changes the square root. They lie within 3 ulp of the exact
transform of the words.

*float64*: ``u = 1 - unit_float64`` in (0, 1] and ``v = unit_float64``, of two words each, with the
logarithm and sine of the target's mathematical library. The result is within 6 ulp of the exact
transform if ``math.log`` and ``math.sin`` are within 2.

References
----------
G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", Annals of
Mathematical Statistics 29 (1958). W. J. Cody and W. Waite, "Software Manual for the Elementary
Functions", Prentice-Hall (1980): reductions of the argument. The polynomials interpolate at
Chebyshev's nodes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kerneldsl.kernels.decorators import func
from kerneldsl.language.intrinsics.values import bitcast, fma
from kerneldsl.random.philox import philox
from kerneldsl.random.uniform import unit_float64

__all__ = [
    "exponential2_float64",
    "exponential4_float32",
    "exponential_float32",
    "exponential_float64",
    "normal2_float64",
    "normal4_float32",
    "normal_float32",
    "normal_float64",
]


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
    # The distance from the next quarter of a turn in 24 bits; 1 is an eighth of a turn.
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


_QUARTER = np.uint32(0x40000000)


@func
def _radius(word: Any) -> Any:
    """Return ``sqrt(-2 ln u)`` as float32, of ``u = (word + 1) / 2**32``."""
    return np.float32(math.sqrt(np.float32(2) * negative_logarithm(word)))


@func
def _on_circle(radius: Any, angle: Any) -> Any:
    """Return a radius times the sine and the cosine of an angle."""
    sine, cosine = sine_and_cosine(angle)
    return with_sign(radius * sine, angle, 0), with_sign(radius * cosine, angle, _QUARTER)


@func
def normal_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return a normal float32 of mean 0 and variance 1, of the first two words.

    Parameters
    ----------
    seed, index, subsequence : int
        As of :func:`~kerneldsl.random.philox.philox`.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def noise(seed, sigma, out):
    ...     i = kd.grid(1)
    ...     out[i] = sigma * kd.random.normal_float32(seed, i)
    >>> out = np.empty(100_000, np.float32)
    >>> noise.forall(out.size)(2024, np.float32(3), out)
    >>> round(float(out.std()), 1)
    3.0
    """
    words = philox(seed, index, subsequence)
    return _on_circle(_radius(words[0]), words[1])[0]


@func
def normal4_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return four normal float32: sines and cosines of the angles of words 1 and 3.

    The radii are those of words 0 and 2. The first is :func:`normal_float32` of the same arguments.
    """
    words = philox(seed, index, subsequence)
    first, second = _on_circle(_radius(words[0]), words[1])
    third, fourth = _on_circle(_radius(words[2]), words[3])
    return first, second, third, fourth


@func
def _sine_of_turn(turn: Any) -> Any:
    """Return ``sin(2 pi turn)`` of a float64 in [0, 1)."""
    half = turn if turn < 0.5 else turn - 0.5
    folded = half if half <= 0.25 else 0.5 - half  # these are exact
    sine = math.sin(folded * (2 * math.pi))
    return sine if turn < 0.5 else -sine


@func
def normal_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return a normal float64 of mean 0 and variance 1, of all four words."""
    words = philox(seed, index, subsequence)
    radius = math.sqrt(-2.0 * math.log(1.0 - unit_float64(words[0], words[1])))
    return radius * _sine_of_turn(unit_float64(words[2], words[3]))


@func
def normal2_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return two normal float64: radius times sine, which is :func:`normal_float64`, and cosine."""
    words = philox(seed, index, subsequence)
    radius = math.sqrt(-2.0 * math.log(1.0 - unit_float64(words[0], words[1])))
    turn = unit_float64(words[2], words[3])
    shifted = turn + 0.25 if turn < 0.75 else turn - 0.75
    return radius * _sine_of_turn(turn), radius * _sine_of_turn(shifted)


# Exponential numbers of a counter, of mean 1: ``-ln u``.
#
# *float32*: ``u = (word + 1) / 2**32`` in (0, 1], of a word each, so that the largest number is
# 22.2. The logarithm is the polynomial above, so that all targets give
# the same bits, within 2 ulp of the exact ones. *float64*: ``u = 1 - unit_float64`` in (0, 1] and
# the logarithm of the target's mathematical library.
#
# See Luc Devroye, "Non-Uniform Random Variate Generation", Springer (1986), section II.2:
# inversion.


@func
def _of_word(word: Any) -> Any:
    return negative_logarithm(word)


@func
def _of_two(low: Any, high: Any) -> Any:
    return -math.log(1.0 - unit_float64(low, high))


@func
def exponential_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return an exponential float32 of mean 1, of the first word.

    Parameters
    ----------
    seed, index, subsequence : int
        As of :func:`~kerneldsl.random.philox.philox`.

    Examples
    --------
    >>> import numpy as np
    >>> import kerneldsl as kd
    >>> @kd.kernel
    ... def waiting(seed, mean, out):
    ...     i = kd.grid(1)
    ...     out[i] = mean * kd.random.exponential_float32(seed, i)
    >>> out = np.empty(100_000, np.float32)
    >>> waiting.forall(out.size)(2024, np.float32(3), out)
    >>> round(float(out.mean()), 1)
    3.0
    """
    return _of_word(philox(seed, index, subsequence)[0])


@func
def exponential4_float32(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return four exponential float32, one of each word, for the work of one.

    The first is :func:`exponential_float32` of the same arguments.
    """
    words = philox(seed, index, subsequence)
    return _of_word(words[0]), _of_word(words[1]), _of_word(words[2]), _of_word(words[3])


@func
def exponential_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return an exponential float64 of mean 1, of the first two words."""
    words = philox(seed, index, subsequence)
    return _of_two(words[0], words[1])


@func
def exponential2_float64(seed: Any, index: Any, subsequence: Any = 0) -> Any:
    """Return two exponential float64, of the first and of the last two words.

    The first is :func:`exponential_float64` of the same arguments.
    """
    words = philox(seed, index, subsequence)
    return _of_two(words[0], words[1]), _of_two(words[2], words[3])
