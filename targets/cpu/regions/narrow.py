"""Guards of whole loops over threads: bounds of the loops."""

from __future__ import annotations

import operator
from typing import NamedTuple, TypeGuard

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number

__all__ = ["narrow"]

_AXES = "xyz"
#: Comparisons with their operands exchanged, and those that hold where others do not.
_EXCHANGED = {operator.gt: operator.lt, operator.le: operator.ge, operator.eq: operator.eq}
_OPPOSITE = {operator.ge: operator.lt, operator.ne: operator.eq}


class _Bounds(NamedTuple):
    """The threads along an axis that pass a condition."""

    axis: str
    low: int
    high: int | Value


def narrow(region: Region) -> None:
    """Turn what guards a whole loop over threads into its bounds."""
    for loop in list(region.walk()):
        if loop.name == "threads":
            while _narrow_once(loop):
                pass


def _narrow_once(loop: Operation) -> bool:
    (region,) = loop.regions
    if len(region.operations) < 2:
        return False
    *before, branch, _ = region.operations
    if branch.name != "if" or branch.results:
        return False
    yes, no = branch.regions
    is_negated = len(yes.operations) == 1
    if (len(no.operations) > 1) != is_negated:
        return False
    if any(each.effects() & Effect.WRITE for each in before):
        return False
    bounds = _bounds_of(branch.operands[0], is_negated=is_negated)
    own = {value for each in before for value in each.results}
    if bounds is None or bounds.high in own:
        return False
    number = _AXES.index(bounds.axis)
    low, high = list(loop.attributes["low"]), list(loop.attributes["high"])
    low[number] = max(low[number], bounds.low)
    if isinstance(bounds.high, int):
        high[number] = min(high[number], bounds.high)
    else:
        loop.operands.append(bounds.high)
        loop.attributes["bounds"] += bounds.axis
    loop.attributes |= {"low": tuple(low), "high": tuple(high)}
    region.operations = [*before, *(no if is_negated else yes).operations]
    return True


def _bounds_of(condition: Value, *, is_negated: bool) -> _Bounds | None:
    """Return the threads that pass a condition, or fail it."""
    test = condition.owner
    if not isinstance(test, Operation) or test.name != "numba" or len(test.operands) != 2:
        return None
    function = test.attributes["function"]
    one, two = test.operands
    if one.type != types.int64 or two.type != types.int64:
        return None
    if _is_thread(two.owner):
        one, two = two, one
        function = _EXCHANGED.get(function)
    if is_negated:
        function = _OPPOSITE.get(function)
    made, number = one.owner, constant_number(two)
    if _is_thread(made):
        if function is operator.lt:
            return _Bounds(made.name[-1], 0, two if number is None else number)
        if function is operator.eq and number is not None and number >= 0:
            return _Bounds(made.name[-1], number, number + 1)
        return None
    return None if function is not operator.eq or number is None else _part(made, number)


def _part(made: object, number: int) -> _Bounds | None:
    """Return the threads with an index that gives a number if it is divided by a constant."""
    if not isinstance(made, Operation) or made.name != "numba":
        return None
    if made.attributes["function"] not in (operator.floordiv, operator.ifloordiv):
        return None
    thread, by = made.operands[0].owner, constant_number(made.operands[1])
    if not _is_thread(thread) or by is None or by <= 0 or number < 0:
        return None
    return _Bounds(thread.name[-1], number * by, (number + 1) * by)


def _is_thread(made: object) -> TypeGuard[Operation]:
    return isinstance(made, Operation) and made.name.startswith("threadIdx.")
