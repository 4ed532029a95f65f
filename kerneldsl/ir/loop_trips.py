"""Count the rounds of loops, where constants say it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kerneldsl.analysis.index_forms import IndexForm, operate
from kerneldsl.ir.operations import Operation, Value, given_to
from kerneldsl.ir.recognize import BINARY, MIRRORED, operator_of

__all__ = ["trips_of"]

#: Rounds of a ``while`` that are computed one by one.
_MOST = 4096
_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.ne)


def trips_of(operation: Operation, form_of: Callable[[Value], IndexForm]) -> float | None:
    """Return the rounds of a loop, averaged where threads begin apart; ``None`` if unknown."""
    match operation.name:
        case "for_each":
            values = operation.attributes.get("values")
            return float(operation.attributes["count"] if values is None else len(values))
        case "for":
            start, stop, step = map(form_of, operation.operands[:3])
            return _counted(start, stop.number, step.number)
    return _tested(operation, form_of)


def _counted(start: IndexForm, stop: int | None, step: int | None) -> float | None:
    if stop is None or not step or start.constant is None or start.is_loaded:
        return None
    if start.is_uniform:
        return float(max(0, -((start.constant - stop) // step)))
    # From each thread's own place on: what the threads of a block share, on average.
    return max(0.0, (stop - start.constant) / step)


def _tested(operation: Operation, form_of: Callable[[Value], IndexForm]) -> float | None:
    """Return the rounds of a ``while`` with one variable, which an operator changes."""
    before, body = operation.regions
    test = before.yielded[0].owner
    function = operator_of(test) if isinstance(test, Operation) else None
    if function not in _COMPARISONS or body.is_left:
        return None
    assert isinstance(test, Operation)
    variable, limit = test.operands
    if variable not in before.arguments:
        variable, limit, function = limit, variable, MIRRORED[function]
    if variable not in before.arguments:
        return None
    number = before.arguments.index(variable)
    change = body.yielded[number].owner
    if not isinstance(change, Operation) or change.operands[:1] != [body.arguments[number]]:
        return None
    update = operator_of(change)
    if update not in BINARY:
        return None
    start, by = form_of(given_to(operation)[number]), form_of(change.operands[1])
    stop = form_of(limit).number
    if stop is None or by.number is None:
        return None
    if start.number is None:
        is_counted = update is operator.add and function is operator.lt
        return _counted(start, stop, by.number) if is_counted else None
    return _rounds(start, function, stop, update, by)


def _rounds(
    value: IndexForm, function: Any, stop: int, update: Callable[..., Any], by: IndexForm
) -> float | None:
    for rounds in range(_MOST):
        if value.number is None:
            return None
        if not function(value.number, stop):
            return float(rounds)
        value = operate(update, value, by)
    return None
