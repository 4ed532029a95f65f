"""Count the rounds of loops, where constants say it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from kerneldsl.analysis.index_forms import IndexForm, operate
from kerneldsl.ir.operations import Operation, Value, given_to
from kerneldsl.ir.recognize import BINARY, MIRRORED, operator_of

__all__ = ["TestedVariable", "tested_variable", "trips_of"]

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
    # The loop starts at a thread's own index: this is the average over the threads of a block.
    return max(0.0, (stop - start.constant) / step)


class TestedVariable(NamedTuple):
    """A variable of a ``while`` loop that its condition compares and an operator changes."""

    #: Number of the variable among the loop's variables.
    number: int
    #: The comparison, with the variable as its first operand, and the second operand.
    relation: Any
    limit: Value
    #: Operation with the variable as its first operand; its result is the variable's next value.
    update: Operation


def tested_variable(loop: Operation) -> TestedVariable | None:
    """Return the variable that decides if a ``while`` loop goes on, if one does."""
    before, body = loop.regions
    test = before.yielded[0].owner
    relation = operator_of(test) if isinstance(test, Operation) else None
    if relation not in _COMPARISONS or body.is_left:
        return None
    assert isinstance(test, Operation)
    variable, limit = test.operands
    if variable not in before.arguments:
        variable, limit, relation = limit, variable, MIRRORED[relation]
    if variable not in before.arguments:
        return None
    number = before.arguments.index(variable)
    update = body.yielded[number].owner
    if not isinstance(update, Operation) or operator_of(update) not in BINARY:
        return None
    if update.operands[0] is not body.arguments[number]:
        return None
    return TestedVariable(number, relation, limit, update)


def _tested(operation: Operation, form_of: Callable[[Value], IndexForm]) -> float | None:
    """Return the rounds of a ``while`` with one variable, which an operator changes."""
    tested = tested_variable(operation)
    if tested is None:
        return None
    function, update = tested.relation, operator_of(tested.update)
    start, by = form_of(given_to(operation)[tested.number]), form_of(tested.update.operands[1])
    stop = form_of(tested.limit).number
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
