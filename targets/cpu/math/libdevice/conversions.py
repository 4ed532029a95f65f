"""Conversions between numbers, with their direction of rounding.

What is too large for an integer becomes the nearest one. A NaN becomes 0, or of or to 64 bits the
number with the highest bit alone.

References
----------
PTX ISA, section "cvt", "Integer Notes" and "Floating Point Notes".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import register_jitable

from kerneldsl.language.element_types import ELEMENT_TYPES, numpy_dtype
from kerneldsl.lowering import scalars
from targets.cpu.math.libdevice.elementary import round_away
from targets.cpu.math.libdevice.emitters import operation

__all__ = [
    "average",
    "average_rounded_up",
    "bits_as",
    "from_integer",
    "halves",
    "high_word",
    "larger",
    "low_word",
    "magnitude",
    "product_of_24_bits",
    "product_of_24_unsigned_bits",
    "smaller",
    "sum_of_difference",
    "to_integer",
    "to_single",
]


def _rounding(direction: str) -> Callable[[Any], Any]:
    known: dict[str, Callable[[Any], Any]] = {
        "rn": np.rint,
        "rz": np.trunc,
        "rd": np.floor,
        "ru": np.ceil,
        "away": round_away,
    }
    return known[direction]


def to_integer(direction: str, source: str, target: str) -> Callable[[Any], Any]:
    """Return the conversion of a float to an integer."""
    kind = numpy_dtype(target).type
    limits = np.iinfo(kind)
    low, high, above = int(limits.min), int(limits.max), float(limits.max) + 1.0
    if float(limits.max) != limits.max:
        above = float(limits.max)  # it is the next power of two itself
    is_long = "float64" in (source, target) or limits.bits == 64
    nan_bits = 1 << (limits.bits - 1)
    of_nan = 0 if not is_long else (nan_bits if low == 0 else low)
    rounded, least = _rounding(direction), float(low)

    def convert(x: Any) -> Any:
        if math.isnan(x):
            return kind(of_nan)
        whole = rounded(x)
        if whole >= above:
            return kind(high)
        if whole <= least:
            return kind(low)
        return kind(whole)

    return convert


def _is_above(target: Any, source: Any) -> Callable[[Any, Any], Any]:
    """Return whether a float is above the integer, or the wider float, that it was made of."""
    row = ELEMENT_TYPES[np.dtype(source).name]
    if row.is_float:

        def wider(made: Any, x: Any) -> Any:
            return (made > x) - (made < x)

        return wider
    power = float(np.iinfo(source).max) + (row.nbytes < 8)

    def whole(made: Any, x: Any) -> Any:
        if made >= power:
            return 1
        back = source(made)
        return (back > x) - (back < x)

    return whole


def from_integer(direction: str, source: str, target: str) -> Callable[[Any], Any]:
    """Return the conversion of an integer to a float."""
    return _to_float(direction, numpy_dtype(source).type, numpy_dtype(target).type)


def to_single(direction: str) -> Callable[[Any], Any]:
    """Return the conversion of a float64 to a float32."""
    return _to_float(direction, np.float64, np.float32)


def _to_float(direction: str, source: Any, target: Any) -> Callable[[Any], Any]:
    compare = register_jitable(_is_above(target, source))
    below, above = target(-math.inf), target(math.inf)
    zero = target(0)

    def nearest(x: Any) -> Any:
        return target(x)

    def down(x: Any) -> Any:
        made = target(x)
        return np.nextafter(made, below) if compare(made, x) > 0 else made

    def up(x: Any) -> Any:
        made = target(x)
        return np.nextafter(made, above) if compare(made, x) < 0 else made

    def toward_zero(x: Any) -> Any:
        made = target(x)
        order = compare(made, x)
        if (made > zero and order > 0) or (made < zero and order < 0):
            return np.nextafter(made, zero)
        return made

    return {"rn": nearest, "rd": down, "ru": up, "rz": toward_zero}[direction]


def bits_as(dtype: str) -> Callable[[Any], Any]:
    """Return the conversion that keeps the bits."""
    cast = operation("bitcast", scalars.EMITTERS["bitcast"], {"dtype": dtype})

    def convert(x: Any) -> Any:
        return cast(x)

    return convert


_to_long = operation("bitcast", scalars.EMITTERS["bitcast"], {"dtype": "int64"})
_to_double = operation("bitcast", scalars.EMITTERS["bitcast"], {"dtype": "float64"})


def low_word(x: Any) -> Any:
    return np.int32(_to_long(x))


def high_word(x: Any) -> Any:
    return np.int32(_to_long(x) >> 32)


def halves(high: Any, low: Any) -> Any:
    """Return the float64 with the bits of two halves."""
    return _to_double((np.int64(high) << 32) | (np.int64(low) & 0xFFFFFFFF))


# -- operations on integers -----------------------------------------------------------------------


def magnitude(x: Any) -> Any:
    """Return the absolute value; of the least number itself."""
    return -x if x < 0 else x


def smaller(x: Any, y: Any) -> Any:
    return x if x < y else y


def larger(x: Any, y: Any) -> Any:
    return x if x > y else y


def product_of_24_bits(x: Any, y: Any) -> Any:
    """Return the lower 32 bits of the product of two signed numbers of 24 bits."""
    return np.int32(((np.int64(x) << 40) >> 40) * ((np.int64(y) << 40) >> 40))


def product_of_24_unsigned_bits(x: Any, y: Any) -> Any:
    """Return the lower 32 bits of the product of two numbers of 24 bits."""
    return np.uint32((np.int64(x) & 0xFFFFFF) * (np.int64(y) & 0xFFFFFF))


def average(x: Any, y: Any) -> Any:
    """Return the mean, rounded down."""
    return (np.int64(x) + np.int64(y)) >> 1


def average_rounded_up(x: Any, y: Any) -> Any:
    """Return the mean, rounded up."""
    return (np.int64(x) + np.int64(y) + 1) >> 1


def sum_of_difference(x: Any, y: Any, z: Any) -> Any:
    """Return |x - y| + z, which wraps around."""
    return np.uint32(abs(np.int64(x) - np.int64(y)) + np.int64(z))
