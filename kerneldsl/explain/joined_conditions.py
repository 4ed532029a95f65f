"""Recognize ``a and b``, ``a or b`` and comparisons in the conditions of branches."""

from __future__ import annotations

import enum
import operator
from typing import Any, NamedTuple

from numba import types

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import operands_of, operator_of

__all__ = ["Comparison", "Join", "comparisons", "join_of"]

_OPPOSITES = {
    operator.lt: operator.ge,
    operator.le: operator.gt,
    operator.gt: operator.le,
    operator.ge: operator.lt,
}


class Join(enum.Enum):
    """Conditions of branches, joined."""

    AND = "and"
    OR = "or"


class Comparison(NamedTuple):
    """A comparison of two values by one of Python's operators."""

    left: Value
    function: Any
    right: Value


def join_of(operation: Operation) -> Join | None:
    """Return how a branch joins its condition and another one; ``None`` if it does not."""
    if len(operation.results) != 1 or operation.result.type != types.boolean:
        return None
    condition, (yes, no) = operation.operands[0], operation.regions
    if no.yielded == [condition]:
        return Join.AND
    return Join.OR if yes.yielded == [condition] else None


def comparisons(value: Value, holds: bool) -> list[Comparison] | None:
    """Return comparisons that all hold where a condition does, or if it does not."""
    made = value.owner
    if not isinstance(made, Operation):
        return None
    if made.name == "if":
        join = join_of(made)
        if join is None or (join is Join.AND) != holds:
            return None
        right = made.regions[0 if join is Join.AND else 1].yielded[0]
        one, two = comparisons(made.operands[0], holds), comparisons(right, holds)
        return None if one is None or two is None else one + two
    function = operator_of(made)
    if function is operator.not_:
        return comparisons(made.operands[0], not holds)
    if function not in _OPPOSITES:
        return None
    left, right = operands_of(made)
    return [Comparison(left, function if holds else _OPPOSITES[function], right)]
