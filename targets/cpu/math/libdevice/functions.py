"""Functions that :mod:`math` lacks, in float64: elementary and Bessel functions, relatives of erf.

What is rounded twice in float32 is within its bounds there: the functions of single precision are
these, rounded once more. Errors of a product or a sum are computed beside it and added at the end.

C's library has the Bessel functions of both kinds. The modified ones are series.

Near 10 a dozen terms of the power series are of the sum's size, and so would be their rounding
errors. So it is summed with the error of each product and each sum. Of the series for large
arguments only the first term is not small, so that the others need no such care.

The inverses of erf begin with a guess of three digits and are improved by Newton's method, or
Halley's, until only rounding is left.

References
----------
Muller et al., "Handbook of Floating-Point Arithmetic", sections "Exact additions" and "Exact
products", and what follows on square roots. NIST Digital Library of Mathematical Functions, 10.25.2
(power series), 10.40.1 (for large arguments) and 7.12 (asymptotic series). Graillat, Langlois,
Louvet, "Compensated Horner scheme", 2005. Winitzki, "A handy approximation for the error function
and its inverse", 2008 (the guess).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kerneldsl.lowering import scalars
from targets.cpu.math.libdevice.emitters import c_function, operation
from targets.cpu.math.vector import coefficients

__all__ = [
    "erfcinv",
    "erfcx",
    "erfinv",
    "exponent",
    "fdim",
    "fraction_and_exponent",
    "hypotenuse",
    "i0",
    "i1",
    "inverse_hypotenuse",
    "j0",
    "j1",
    "jn",
    "larger",
    "logb",
    "normcdf",
    "normcdfinv",
    "power_of_integer",
    "remainder",
    "remquo",
    "round_away",
    "saturate",
    "sincospi",
    "smaller",
    "y0",
    "y1",
    "yn",
]

_fma = operation("fma", scalars.EMITTERS["fma"])
remainder = c_function("remainder", "float64", "float64", "float64")
round_away = c_function("round", "float64", "float64")

#: π as a float64, and the remainder.
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
    # The scaling takes two steps: 2 to the power of the whole exponent may not be a float64.
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


# -- Bessel functions ------------------------------------------------------------------------------


j0 = c_function("j0", "float64", "float64")
j1 = c_function("j1", "float64", "float64")
_jn = c_function("jn", "float64", "int32", "float64")
y0 = c_function("y0", "float64", "float64")
y1 = c_function("y1", "float64", "float64")
_yn = c_function("yn", "float64", "int32", "float64")

#: Least argument for which the series for large arguments reaches float64's precision before its
#: terms grow.
_LARGE = 20.0
#: Terms of each series; further ones are less than 1e-18 of the sum.
_TERMS = 40
#: 2π as a float64, and the remainder.
_TWO_PI, _TWO_PI_REST = 6.283185307179586, 2.4492935982947064e-16
#: The modified functions overflow just below.
_OVERFLOW = 714.0
#: exp overflows before these functions. For larger arguments, e to the power of 20, which is close
#: to a float64, is multiplied at the end.
_EXP_OVERFLOW, _TAKEN, _POWER_TAKEN = 709.0, 20.0, 485165195.4097903


def _power_series(order: int) -> np.ndarray:
    """Return the coefficients of powers of x² / 4, the highest first, and what each lacks."""
    rows = []
    for k in reversed(range(_TERMS)):
        exact = Fraction(1, math.factorial(k) * math.factorial(k + order))
        rows.append((float(exact), float(exact - Fraction(float(exact)))))
    return np.array(rows)


def _large_series(order: int) -> np.ndarray:
    """Return the coefficients of powers of 1 / x, the highest first, without the 1 at the end."""
    exact, found = Fraction(1), []
    for k in range(1, _TERMS + 1):
        exact *= Fraction((2 * k - 1) ** 2 - 4 * order**2, 8 * k)
        found.append(float(exact))
    return np.array(found[::-1])


_SMALL_0, _SMALL_1 = _power_series(0), _power_series(1)
_LARGE_0, _LARGE_1 = _large_series(0), _large_series(1)


@register_jitable
def _large(size: Any, series: Any) -> Any:
    """Return the sum of the series for large arguments times exp(size) / √(2π size)."""
    inverse = 1.0 / size
    small = 0.0
    for coefficient in series:
        small = (small + coefficient) * inverse
    is_too_large = size > _EXP_OVERFLOW
    power = math.exp(size - _TAKEN if is_too_large else size)
    square = _TWO_PI * size
    square_rest = _fma(_TWO_PI, size, -square) + _TWO_PI_REST * size
    root = math.sqrt(square)
    quotient = power / root
    # Relative errors of the root and of the quotient.
    small -= 0.5 * (_fma(-root, root, square) + square_rest) / square
    small += _fma(-quotient, root, power) / power
    value = _fma(quotient, small, quotient)
    return value * _POWER_TAKEN if is_too_large else value


@register_jitable
def _small(size: Any, series: Any) -> Any:
    """Return the sum of the power series, and what it lacks."""
    half = 0.5 * size
    square = half * half
    square_rest = _fma(half, half, -square)
    total, rest = 0.0, 0.0
    for row in range(series.shape[0]):
        coefficient = series[row, 0]
        product = total * square
        added = product + coefficient
        part = added - product
        lost = _fma(total, square, -product) + (product - (added - part)) + (coefficient - part)
        rest = _fma(rest, square, _fma(total, square_rest, lost + series[row, 1]))
        total = added
    return total, rest


def i0(x: Any) -> Any:
    """Return the modified Bessel function of order 0."""
    size = abs(x)
    if size > _OVERFLOW:
        return math.inf
    if size >= _LARGE:
        return _large(size, _LARGE_0)
    total, rest = _small(size, _SMALL_0)
    return total + rest


def i1(x: Any) -> Any:
    """Return the modified Bessel function of order 1."""
    size = abs(x)
    if size > _OVERFLOW:
        return math.copysign(math.inf, x)
    if size >= _LARGE:
        return math.copysign(_large(size, _LARGE_1), x)
    total, rest = _small(size, _SMALL_1)
    half = 0.5 * x
    return _fma(half, total, half * rest)


def jn(n: Any, x: Any) -> Any:
    """Return the Bessel function of the first kind of an order, NaN of one below 0."""
    return math.nan if n < 0 else _jn(n, x)


def yn(n: Any, x: Any) -> Any:
    """Return the Bessel function of the second kind of an order, NaN of one below 0."""
    return math.nan if n < 0 else _yn(n, x)


# -- relatives of the error function ---------------------------------------------------------------


#: 2 / √π and 1 / √π.
_SLOPE, _ROOT = 1.1283791670955126, 0.5641895835477563
#: 1 / √2 as a float64, and the remainder.
_HALF_ROOT, _HALF_ROOT_REST = 0.7071067811865476, -4.833646656726457e-17
#: Coefficients of (1 + 2x) exp(x²) erfc(x) in (x - 4) / (x + 4), the highest first.
_SCALED = np.array(coefficients.ERFC["double"][::-1])
#: √2 as a float64.
_ROOT_OF_TWO = 1.4142135623730951


@register_jitable
def _scaled_center(x: Any) -> Any:
    """Return exp(x²) erfc(x) for x from 1/2 to 8, by the approximation that erfc is made of."""
    place = (x - 4.0) / (x + 4.0)
    total = 0.0
    for coefficient in _SCALED:
        total = _fma(total, place, coefficient)
    return total / _fma(2.0, x, 1.0)


@register_jitable
def _scaled_tail(x: Any) -> Any:
    """Return exp(x²) erfc(x) for x ≥ 8, by the asymptotic series."""
    step = -0.5 / (x * x)
    term, rest = 1.0, 0.0
    for k in range(1, 24):
        # Past 1e154 the square is infinite and the step 0.
        term *= step * (2 * k - 1)
        rest += term
    first = _ROOT / x
    return _fma(first, rest, first)


def erfcx(x: Any) -> Any:
    """Return exp(x²) erfc(x)."""
    if x >= 8.0:
        return _scaled_tail(x)
    if x >= 0.5:
        return _scaled_center(x)
    if x < -26.7:
        return math.inf
    square = x * x
    product = math.exp(square) * math.erfc(x)
    # exp(rest) is 1 + rest, for what the square lacks.
    return _fma(product, _fma(x, x, -square), product)


_erfcx = register_jitable(erfcx)


@register_jitable
def _guess(log: Any) -> Any:
    """Return about y > 0 with this logarithm of 1 - erf²(y)."""
    a = 0.147
    middle = 2.0 / (math.pi * a) + 0.5 * log
    return math.sqrt(math.sqrt(middle * middle - log / a) - middle)


@register_jitable
def _inverse_of_center(x: Any) -> Any:
    """Return y with erf(y) = x for |x| ≤ 3/4."""
    y = x / _SLOPE
    for _ in range(4):
        step = (math.erf(y) - x) / (_SLOPE * math.exp(-y * y))
        y -= step / (1.0 + y * step)
    return y


@register_jitable
def _inverse_of_tail(q: Any) -> Any:
    """Return y with erfc(y) = q for 0 < q ≤ 1/2, from the logarithms of both sides."""
    log = math.log(q)
    y = _guess(log + math.log(2.0 - q))
    for _ in range(5):
        scaled = _erfcx(y)
        y += (math.log(scaled) - y * y - log) * scaled / _SLOPE
    return y


def erfcinv(x: Any) -> Any:
    """Return y with erfc(y) = x."""
    if x == 0.0:
        return math.inf
    if x == 2.0:
        return -math.inf
    if not 0.0 < x < 2.0:
        return math.nan
    if x < 0.5:
        return _inverse_of_tail(x)
    if x > 1.5:
        return -_inverse_of_tail(2.0 - x)
    return _inverse_of_center(1.0 - x)


def erfinv(x: Any) -> Any:
    """Return y with erf(y) = x."""
    size = abs(x)
    if size <= 0.75:
        return x if x == 0.0 else _inverse_of_center(x)
    if size < 1.0:
        return math.copysign(_inverse_of_tail(1.0 - size), x)
    return math.copysign(math.inf, x) if size == 1.0 else math.nan


_erfcinv = register_jitable(erfcinv)


def normcdf(x: Any) -> Any:
    """Return the probability that a normal number is below x: erfc(-x / √2) / 2."""
    z = -_HALF_ROOT * x
    rest = _fma(-_HALF_ROOT, x, -z) - _HALF_ROOT_REST * x
    tail = math.erfc(z)
    if z > 1.0 and tail > 0.0:
        # The derivative of erfc at z, for what z lacks.
        tail -= rest * _SLOPE * math.exp(-z * z)
    return 0.5 * tail


def normcdfinv(x: Any) -> Any:
    """Return the number below which a normal number is with probability x."""
    return -_ROOT_OF_TWO * _erfcinv(2.0 * x)
