"""Intervals of integers, for the values of registers."""

from __future__ import annotations

from typing import TypeAlias

__all__ = ["INT32", "Interval", "common", "hull", "is_within", "of_product", "of_sum"]

#: The smallest and the largest value.
Interval: TypeAlias = tuple[int, int]
INT32: Interval = (-(2**31), 2**31 - 1)


def is_within(value: Interval | None, bounds: Interval) -> bool:
    """Return whether an interval is known and within bounds."""
    return value is not None and bounds[0] <= value[0] and value[1] <= bounds[1]


def of_sum(one: Interval, other: Interval, factor: int = 1) -> Interval:
    """Return the interval of ``one + factor * other``.

    Examples
    --------
    >>> of_sum((0, 5), (1, 2), -1)
    (-2, 4)
    """
    low, high = sorted((factor * other[0], factor * other[1]))
    return one[0] + low, one[1] + high


def of_product(one: Interval, other: Interval) -> Interval:
    ends = [a * b for a in one for b in other]
    return min(ends), max(ends)


def common(one: Interval | None, other: Interval | None) -> Interval | None:
    """Return the interval of a value that is in both, if they are known."""
    if one is None or other is None:
        return one or other
    return max(one[0], other[0]), min(one[1], other[1])


def hull(one: Interval, other: Interval) -> Interval:
    """Return the smallest interval with both."""
    return min(one[0], other[0]), max(one[1], other[1])
