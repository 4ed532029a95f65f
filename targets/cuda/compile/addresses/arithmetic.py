"""Bounds of the integers in registers, and polynomials with integer coefficients.

Coefficients wrap, as registers compute them.
"""

from __future__ import annotations

import operator
from typing import Any, TypeAlias

from kerneldsl.analysis.interval_arithmetic import Interval

__all__ = [
    "INT32",
    "OPERATORS",
    "Polynomial",
    "add",
    "common",
    "constant",
    "degree",
    "is_within",
    "multiply",
    "scale",
    "signed",
    "wrap",
]

INT32: Interval = (-(2**31), 2**31 - 1)
#: Instructions and the operators of Python that compute the same.
OPERATORS: dict[str, Any] = {
    "add": operator.add,
    "sub": operator.sub,
    "neg": operator.neg,
    "mul": operator.mul,
    "min": min,
    "max": max,
}


def is_within(value: Interval | None, bounds: Interval) -> bool:
    """Return whether an interval is known and within bounds."""
    return value is not None and bounds[0] <= value[0] and value[1] <= bounds[1]


def common(one: Interval | None, other: Interval | None) -> Interval | None:
    """Return the interval of a value that is in both, if they are known."""
    if one is None or other is None:
        return one or other
    return max(one[0], other[0]), min(one[1], other[1])


#: Maps the sorted atoms of each term to its coefficient, which is not 0. A constant has no atoms.
Polynomial: TypeAlias = dict[tuple[str, ...], int]


def constant(value: int) -> Polynomial:
    """Return a polynomial without atoms."""
    return {(): value} if value else {}


def signed(value: int, bits: int) -> int:
    """Return the number that two's complement takes the low bits of `value` for.

    Examples
    --------
    >>> signed(2**32 - 1, 32), signed(7, 32)
    (-1, 7)
    """
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def wrap(value: Polynomial, bits: int) -> Polynomial:
    """Return a polynomial with signed coefficients of so many bits."""
    half = 1 << (bits - 1)
    if not value or (min(value.values()) >= -half and max(value.values()) < half):
        return value
    wrapped = {term: signed(factor, bits) for term, factor in value.items()}
    return {term: factor for term, factor in wrapped.items() if factor}


def add(one: Polynomial, other: Polynomial, factor: int = 1) -> Polynomial:
    """Return ``one + factor * other``.

    Examples
    --------
    >>> add({("x",): 1, (): 3}, {("x",): 1, (): 1}, -1)
    {(): 2}
    """
    total = dict(one)
    for term, each in other.items():
        if found := total.get(term, 0) + factor * each:
            total[term] = found
        else:
            total.pop(term, None)
    return total


def scale(value: Polynomial, factor: int) -> Polynomial:
    return {term: each * factor for term, each in value.items()} if factor else {}


def multiply(one: Polynomial, other: Polynomial) -> Polynomial:
    """Return a product.

    Examples
    --------
    >>> multiply({("x",): 1, (): 1}, {("w",): 2})
    {('w', 'x'): 2, ('w',): 2}
    """
    product: Polynomial = {}
    for left, a in one.items():
        for right, b in other.items():
            term = tuple(sorted(left + right))
            product[term] = product.get(term, 0) + a * b
    return {term: each for term, each in product.items() if each}


def degree(value: Polynomial) -> int:
    """Return the number of atoms in the longest term."""
    return max(map(len, value), default=0)
