"""Elementary functions that :mod:`math` lacks, in float64.

What is rounded twice in float32 is within its bounds there: the functions of single precision are
these, rounded once more. Errors of a product or a sum are computed beside it and added at the end.

References
----------
Muller et al., "Handbook of Floating-Point Arithmetic", section "Exact additions" and "Exact
products".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kerneldsl.lowering import scalars
from targets.cpu.math.libdevice.emitters import c_function, operation

__all__ = [
    "exponent",
    "fdim",
    "fraction_and_exponent",
    "hypotenuse",
    "inverse_hypotenuse",
    "larger",
    "logb",
    "power_of_integer",
    "remainder",
    "remquo",
    "round_away",
    "saturate",
    "sincospi",
    "smaller",
]

_fma = operation("fma", scalars.EMITTERS["fma"])
remainder = c_function("remainder", "float64", "float64", "float64")
round_away = c_function("round", "float64", "float64")

#: π as a float64, and what is missing.
_PI, _PI_REST = 3.141592653589793, 1.2246467991473532e-16


@register_jitable
def _of_quarter(x: Any) -> Any:
    """Return sin πx and cos πx for |x| ≤ 1/4."""
    angle = _PI * x
    rest = _fma(_PI, x, -angle) + _PI_REST * x
    sine, cosine = math.sin(angle), math.cos(angle)
    return sine + rest * cosine, cosine - rest * sine


@register_jitable
def sincospi(x: Any) -> Any:
    """Return sin πx and cos πx; of a whole number the sine is 0 with its sign."""
    whole = x - 2.0 * np.rint(0.5 * x)  # exact, in [-1, 1]
    halves = np.rint(2.0 * whole)
    sine, cosine = _of_quarter(whole - 0.5 * halves)
    if halves == 1.0:
        sine, cosine = cosine, 0.0 - sine
    elif halves == -1.0:
        sine, cosine = -cosine, sine + 0.0
    elif halves != 0.0:  # two of them, in either direction
        sine, cosine = -sine, -cosine
    if x == np.trunc(x) and not math.isinf(x):
        sine = math.copysign(0.0, x)
    return sine, cosine


@register_jitable
def _sum_of_squares(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the root of a sum of squares of numbers of at most 1."""
    total, rest = 0.0, 0.0
    for value in (a, b, c, d):
        square = value * value
        error = _fma(value, value, -square)
        added = total + square
        part = added - total
        rest += (total - (added - part)) + (square - part) + error
        total = added
    return total + rest


@register_jitable
def _ldexp(x: Any, n: Any) -> Any:
    return math.ldexp(x, n)


@register_jitable
def _scaled(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return a sum of squares, divided by 4 to a power, and the power; of no NaN or infinity."""
    largest = max(abs(a), abs(b), abs(c), abs(d))
    exponent = math.frexp(largest)[1]
    # In two steps: 2 to the power of the whole exponent may not be a float64.
    half = exponent // 2
    first, second = _ldexp(1.0, np.int32(-half)), _ldexp(1.0, np.int32(half - exponent))
    parts = (a * first * second, b * first * second, c * first * second, d * first * second)
    return _sum_of_squares(parts[0], parts[1], parts[2], parts[3]), exponent


@register_jitable
def _is_infinite(a: Any, b: Any, c: Any, d: Any) -> Any:
    return math.isinf(a) or math.isinf(b) or math.isinf(c) or math.isinf(d)


@register_jitable
def hypotenuse(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return the root of a sum of squares; infinity where one is infinite, be another NaN."""
    if _is_infinite(a, b, c, d):
        return math.inf
    square, exponent = _scaled(a, b, c, d)
    return math.ldexp(math.sqrt(square), exponent)


@register_jitable
def inverse_hypotenuse(a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return 1 / the root of a sum of squares."""
    if _is_infinite(a, b, c, d):
        return 0.0
    square, exponent = _scaled(a, b, c, d)
    return math.ldexp(1.0 / math.sqrt(square), -exponent)


def larger(x: Any, y: Any) -> Any:
    """Return the larger number; 0 is larger than -0."""
    return x + y if x == 0 and y == 0 else np.fmax(x, y)


def smaller(x: Any, y: Any) -> Any:
    """Return the smaller number; -0 is smaller than 0."""
    return -(-x - y) if x == 0 and y == 0 else np.fmin(x, y)


def fdim(x: Any, y: Any) -> Any:
    """Return x - y where x is greater, else 0; NaN of a NaN."""
    return 0.0 if x <= y else x - y


def logb(x: Any) -> Any:
    """Return the exponent of x as a float."""
    if x == 0.0:
        return -math.inf
    if math.isinf(x) or math.isnan(x):
        return x * x
    return float(math.frexp(x)[1] - 1)


def exponent(x: Any) -> Any:
    """Return the exponent of x; the least int32 of 0 and NaN, the greatest of infinity."""
    if x == 0.0 or math.isnan(x):
        return np.int32(-2147483648)
    return np.int32(2147483647 if math.isinf(x) else math.frexp(x)[1] - 1)


def fraction_and_exponent(x: Any) -> Any:
    """Return x divided by a power of two, to within 1/2 and 1, and the power."""
    if x == 0.0 or math.isnan(x) or math.isinf(x):
        return x, np.int32(0)
    fraction, power = math.frexp(x)
    return fraction, np.int32(power)


def power_of_integer(x: Any, n: Any) -> Any:
    """Return xⁿ by repeated squaring, as libdevice does."""
    left = abs(np.int64(n))
    result, factor = 1.0, x
    while True:
        if left & 1:
            result *= factor
        left >>= 1
        if left == 0:
            break
        factor *= factor
    return 1.0 / result if n < 0 else result


def saturate(x: Any) -> Any:
    """Return x within 0 and 1, 0 of a NaN."""
    if x >= 1.0:
        return 1.0
    return x if x > 0.0 else 0.0


def remquo(x: Any, y: Any) -> Any:
    """Return the remainder, and the three lowest bits of the quotient with its sign."""
    rest = remainder(x, y)
    if math.isnan(rest) or math.isinf(y):
        return rest, np.int32(0)
    # The quotient modulo 8: exact, because what is left is a few times y.
    size = abs(y)
    left = math.fmod(abs(x), 8.0 * size) if size < 1e307 else abs(x)
    turned = -rest if x < 0 else rest
    count = np.int64(np.rint((left - turned) / size)) & 7
    return rest, np.int32(-count if (x < 0) != (y < 0) else count)
