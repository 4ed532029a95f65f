"""Parts of floating-point numbers: exponents, powers of two, whole numbers, special results."""

from __future__ import annotations

import math
import struct

from targets.cpu.vector_math.expressions import Value, absolute, bits, floating, select

__all__ = [
    "NAN",
    "high_part",
    "power_of_two",
    "rounded",
    "scaled",
    "split",
    "whole",
]

NAN = math.nan


def rounded(x: Value) -> tuple[Value, Value]:
    """Return the whole number that is nearest to a small one, as a float and as an integer.

    Added to 1.5 * 2**23 (2**52 of a float64) it stands in the last places of the sum.
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
    """Return a number with the lower half of the places cleared; the rest fits there, too."""
    return floating(bits(x) & (-(1 << 12) if x.is_single else -(1 << 27)))


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


def is_finite(x: Value) -> Value:
    """Return whether a number is neither infinite nor NaN."""
    return absolute(x) < math.inf
