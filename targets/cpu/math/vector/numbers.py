"""Parts of floating-point numbers: exponents, powers of two, whole numbers, special results."""

from __future__ import annotations

import math
import struct

from targets.cpu.math.vector.expressions import Value, bits, floating, fma, select

__all__ = [
    "NAN",
    "fast_two_sum",
    "high_part",
    "is_whole",
    "power_of_two",
    "rounded",
    "scaled",
    "split",
    "two_product",
    "two_sum",
    "whole",
]

NAN = math.nan


def rounded(x: Value) -> tuple[Value, Value]:
    """Return the whole number that is nearest to a small one, as a float and as an integer.

    Added to 1.5 * 2**23 (2**52 of a float64) it is in the last places of the sum.
    """
    magic = _magic(x)
    shifted = x + magic
    return shifted - magic, bits(shifted) - _pattern(x, magic)


def whole(n: Value, like: Value) -> Value:
    """Return a small integer as a float of the type of another one."""
    magic = _magic(like)
    return floating(n + _pattern(like, magic)) - magic


def power_of_two(n: Value, like: Value) -> Value:
    """Return 2**n for an exponent n that a normal number has, as a float of the type of another."""
    return floating((n + _bias(like)) << _places(like))


def scaled(x: Value, n: Value) -> Value:
    """Return x * 2**n, rounded once, for n of up to twice the range of exponents."""
    half = n >> 1
    return x * power_of_two(half, x) * power_of_two(n - half, x)


def split(x: Value, lowest: float) -> tuple[Value, Value]:
    """Return a number from `lowest` to 2 * `lowest`, and n: their product with 2**n is x > 0.

    Of what is not positive and finite, numbers without a meaning.
    """
    places = _places(x)
    least = 2.0 ** (1 - _bias(x))
    is_subnormal = x < least
    normal = select(is_subnormal, x * 2.0**places, x)
    pattern = bits(normal)
    n = (pattern - _pattern(x, lowest)) >> places
    mantissa = floating(pattern - (n << places))
    return mantissa, n + select(is_subnormal, n.constant(-places), n.constant(0))


def high_part(x: Value) -> Value:
    """Return a number of half as many places; products of such numbers are exact."""
    return floating(bits(x) & (-(1 << 12) if x.is_single else -(1 << 27)))


def is_whole(magnitude: Value) -> Value:
    """Return whether a number that is not negative has no fraction; infinity has none."""
    unit = 2.0 ** _places(magnitude)
    return (magnitude >= unit) | ((magnitude + unit) - unit).equals(magnitude)


def fast_two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a + b and what rounding took from it, where a is 0 or not smaller than b."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a + b and what rounding took from it."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a * b and what rounding took from it, of float64 with a product below 2**900."""
    product = a * b
    if a.code.has_fma:
        return product, fma(a, b, -product)
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    rest = ((a_high * b_high - product) + a_high * b_low) + a_low * b_high
    return product, rest + a_low * b_low


def _halves(x: Value) -> tuple[Value, Value]:
    """Return a float64 as a sum of two numbers of 26 places."""
    multiple = x * (2.0**27 + 1.0)
    high = multiple - (multiple - x)
    return high, x - high


def _places(x: Value) -> int:
    return 23 if x.is_single else 52


def _bias(x: Value) -> int:
    return 127 if x.is_single else 1023


def _magic(x: Value) -> float:
    return 1.5 * 2.0 ** _places(x)


def _pattern(x: Value, value: float) -> int:
    """Return the bits of a number of the type of another one."""
    code, of = ("i", "f") if x.is_single else ("q", "d")
    found: int = struct.unpack(code, struct.pack(of, value))[0]
    return found
