"""Unsigned differences that are certainly not negative."""

from __future__ import annotations

import operator
from collections.abc import Iterator

from kerneldsl.ir.frontend.findings.flow import Flow
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import constant_number, is_false, operator_of

__all__ = ["are_ordered"]

_REDUCES = frozenset(
    (
        *(operator.floordiv, operator.ifloordiv, operator.mod, operator.imod),
        *(operator.and_, operator.iand, operator.rshift, operator.irshift),
    )
)
_ADD = (operator.add, operator.iadd)
#: Comparisons with the larger operand first, and those with the smaller one first.
_FIRST_IS_LARGER = (operator.gt, operator.ge, operator.ne)
_LAST_IS_LARGER = {operator.lt: operator.gt, operator.le: operator.ge}


def are_ordered(flow: Flow, operation: Operation) -> bool:
    """Return whether a difference is certainly not negative.

    ``left - right`` is not negative if `right` is at most a literal that is `left` or is added to
    it. It is not if `right` is a part of `left`, as in ``x - x // 2``, or if a condition around it
    compares the two.
    """
    left, right = operation.operands
    most = flow.interval(right)[1]
    if most <= _least(left):
        return True
    made = right.owner
    reduced = isinstance(made, Operation) and operator_of(made) in _REDUCES and made.operands[0]
    if reduced and flow.are_same(reduced, left):
        return True
    conditions = _conditions(flow, operation)
    return any(_says(flow, condition, left, right, most) for condition in conditions)


def _least(value: Value) -> int:
    number = constant_number(value)
    if number is not None:
        return max(number, 0)
    made = value.owner
    if isinstance(made, Operation) and operator_of(made) in _ADD:
        return max(map(_least, made.operands))
    return 0


def _conditions(flow: Flow, operation: Operation) -> Iterator[Value]:
    """Yield the conditions that are true where an operation runs."""
    region = flow.region_of[operation]
    while (holder := flow.holder_of.get(region)) is not None:
        if holder.name == "if" and region is holder.regions[0]:
            yield from _conjuncts(holder.operands[0])
        elif holder.name == "while" and region is holder.regions[1]:
            yield from _conjuncts(holder.regions[0].yielded[0])
        region = flow.region_of[holder]


def _conjuncts(condition: Value) -> Iterator[Value]:
    made = condition.owner
    if isinstance(made, Operation) and made.name == "if" and len(made.results) == 1:
        yes, no = made.regions
        is_both = not (yes.is_left or no.is_left) and (
            is_false(no.yielded[0]) or no.yielded[0] is made.operands[0]
        )
        if is_both:
            yield from _conjuncts(made.operands[0])
            yield from _conjuncts(yes.yielded[0])
            return
    if isinstance(made, Operation) and operator_of(made) is bool:
        condition = made.operands[0]
    yield condition


def _says(flow: Flow, condition: Value, left: Value, right: Value, most: int) -> bool:
    """Return whether a condition says that an operand is at least the other."""
    made = condition.owner
    function = operator_of(made) if isinstance(made, Operation) else None
    if function in _LAST_IS_LARGER:
        assert isinstance(made, Operation)
        two, one = made.operands
        function = _LAST_IS_LARGER[function]
    elif function in _FIRST_IS_LARGER:
        assert isinstance(made, Operation)
        one, two = made.operands
    else:  # it is true: not 0
        return most <= 1 and flow.are_same(condition, left)
    if not flow.are_same(one, left):
        return False
    if function is not operator.ne and flow.are_same(two, right):
        return True
    least = constant_number(two)
    if least is None or (function is operator.ne and least != 0):
        return False
    return most <= (least if function is operator.ge else least + 1)
