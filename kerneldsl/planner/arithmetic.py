"""Arithmetic in which the cost models are written: of numbers here, of formulas elsewhere.

A model is one function for both. A launch evaluates it with :data:`NUMBERS`, which is Python's own
arithmetic; :mod:`kerneldsl.planner.formula` with SymPy's, which gives the model as an expression.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, TypeAlias

__all__ = ["NUMBERS", "Arithmetic", "Quantity"]

#: A number, or an expression.
Quantity: TypeAlias = Any


class Arithmetic(Protocol):
    """Operations of the models that operators do not write."""

    def named(self, name: str, value: Quantity) -> Quantity:
        """Return the value of a step of the model, which formulas call by its name."""

    def largest(self, a: Quantity, b: Quantity, /, *others: Quantity) -> Quantity:
        """Return the largest of some values."""

    def least(self, a: Quantity, b: Quantity, /, *others: Quantity) -> Quantity:
        """Return the least of some values."""

    def ceil_ratio(self, a: Quantity, b: Quantity) -> Quantity:
        """Return ⌈a/b⌉."""

    def floor_ratio(self, a: Quantity, b: Quantity) -> Quantity:
        """Return ⌊a/b⌋."""

    def select(self, condition: Quantity, a: Quantity, b: Quantity) -> Quantity:
        """Return `a` where the condition holds, else `b`."""

    def is_multiple(self, a: Quantity, b: int) -> Quantity:
        """Return whether b divides a."""

    def norm(self, parts: Sequence[Quantity], exponent: Quantity) -> Quantity:
        """Combine parts, none negative, into something between the largest and their sum."""

    def on_table(self, table: Sequence[tuple[int, float]], nbytes: Quantity) -> Quantity:
        """Return the value for so many bytes: on a log-log line between two points of a table."""


class _Numbers:
    """Arithmetic of plain numbers."""

    __slots__ = ()

    largest = staticmethod(max)
    least = staticmethod(min)

    @staticmethod
    def named(name: str, value: Quantity) -> Quantity:
        return value

    @staticmethod
    def ceil_ratio(a: Quantity, b: Quantity) -> Quantity:
        return -(-a // b)

    @staticmethod
    def floor_ratio(a: Quantity, b: Quantity) -> Quantity:
        return a // b

    @staticmethod
    def select(condition: Quantity, a: Quantity, b: Quantity) -> Quantity:
        return a if condition else b

    @staticmethod
    def is_multiple(a: Quantity, b: int) -> Quantity:
        return not a % b

    @staticmethod
    def norm(parts: Sequence[Quantity], exponent: Quantity) -> Quantity:
        # Of shares of the largest, so that no power is too large.
        largest = max(parts)
        if largest <= 0.0:
            return 0.0
        total: float = sum((part / largest) ** exponent for part in parts)
        return largest * math.pow(total, 1.0 / exponent)

    @staticmethod
    def on_table(table: Sequence[tuple[int, float]], nbytes: Quantity) -> Quantity:
        before = table[0]
        for point in table:
            if nbytes <= point[0]:
                if point == before:
                    break
                share = math.log(nbytes / before[0]) / math.log(point[0] / before[0])
                return float(before[1] * (point[1] / before[1]) ** share)
            before = point
        return before[1]


#: Arithmetic of plain numbers.
NUMBERS: Arithmetic = _Numbers()
