"""Intervals of integers, and what operators make of them."""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

__all__ = ["ANY", "Interval", "hull", "interval_of"]

#: The smallest and the largest value.
Interval: TypeAlias = tuple[int, int]
#: All of int64.
ANY: Interval = (-(2**63), 2**63 - 1)
_BITS = 64


def hull(one: Interval, other: Interval) -> Interval:
    """Return the smallest interval with both."""
    return min(one[0], other[0]), max(one[1], other[1])


def interval_of(function: Any, known: list[Interval]) -> Interval:
    """Return the interval of a function of integers, which may be beyond int64.

    That of a function which is not known is all of int64.

    Examples
    --------
    >>> interval_of(operator.sub, [(0, 5), (1, 2)])
    (-2, 4)
    """
    if function is min:
        return min(low for low, _ in known), min(high for _, high in known)
    if function is max:
        return max(low for low, _ in known), max(high for _, high in known)
    if len(known) == 1:
        (low, high) = known[0]
        if function is operator.neg:
            return -high, -low
        if function is abs:
            return max(low, -high, 0), max(-low, high)
        return ANY
    if len(known) != 2:
        return ANY
    a, b = known
    if function is operator.add:
        return a[0] + b[0], a[1] + b[1]
    if function is operator.sub:
        return a[0] - b[1], a[1] - b[0]
    if function is operator.mul:
        return _ends([x * y for x in a for y in b])
    if function is operator.floordiv and b[0] > 0:
        return _ends([x // y for x in a for y in b])
    if function is operator.floordiv and a[0] >= 0 <= b[0]:
        return 0, a[1]
    if function is operator.mod and b[0] > 0:
        return (0, min(a[1], b[1] - 1)) if a[0] >= 0 else (0, b[1] - 1)
    if function is operator.mod and b[0] >= 0:
        return 0, b[1]
    return _of_bits(function, a, b)


def _of_bits(function: Any, a: Interval, b: Interval) -> Interval:
    if function is operator.lshift and b[0] >= 0 and b[1] < _BITS:
        return _ends([x << y for x in a for y in b])
    if function is operator.rshift and b[0] >= 0 and b[1] < _BITS:
        return _ends([x >> y for x in a for y in b])
    if function is operator.rshift and a[0] >= 0:
        return 0, a[1]
    if function is operator.and_ and (a[0] >= 0 or b[0] >= 0):
        return 0, min(high for low, high in (a, b) if low >= 0)
    if function in (operator.or_, operator.xor) and a[0] >= 0 and b[0] >= 0:
        return 0, (1 << max(a[1], b[1]).bit_length()) - 1
    return ANY


def _ends(corners: list[int]) -> Interval:
    return min(corners), max(corners)
