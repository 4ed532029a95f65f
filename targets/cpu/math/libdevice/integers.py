"""Operations on integers."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "average",
    "average_rounded_up",
    "larger",
    "magnitude",
    "product_of_24_bits",
    "product_of_24_unsigned_bits",
    "smaller",
    "sum_of_difference",
]


def magnitude(x: Any) -> Any:
    """Return the absolute value; of the least number itself."""
    return -x if x < 0 else x


def smaller(x: Any, y: Any) -> Any:
    """Return the smaller number."""
    return x if x < y else y


def larger(x: Any, y: Any) -> Any:
    """Return the larger number."""
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
