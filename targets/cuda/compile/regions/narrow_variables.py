"""Keep variables in 32 bits that are halved or doubled in loops, if their values are known to fit.

LLVM follows sums through loops, but not products: it does not know how large `step` is after
``step //= 2``. So it keeps the variable, and what is computed from it, in 64 bits: two registers
and two instructions. Such variables are mostly distances within a block, which has 1024 threads.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping

from numba import types

from kerneldsl.contract import Report
from kerneldsl.ir.operations import Function, Operation
from kerneldsl.ir.ranges import Interval, ranges_of
from kerneldsl.ir.recognize import constant_number, operator_of
from targets.cuda.compile.regions.walks import location

__all__ = ["narrow_variables"]

_LARGEST = 2**31 - 1
_UPDATES = (operator.mul, operator.floordiv, operator.lshift, operator.rshift)


def narrow_variables(function: Function, intervals: Mapping[str, Interval], report: Report) -> None:
    """Mark such variables of loops; `intervals` are those of operations by their names."""
    found = [
        (loop, number, update)
        for loop in function.body.walk()
        if loop.name in ("while", "for")
        for number, update in _updates(loop)
    ]
    if not found:
        return
    known = ranges_of(function, intervals)
    for loop, number, update in found:
        body = loop.regions[-1]
        first = len(body.arguments) - len(loop.results)
        arguments = [region.arguments[number + (region is body) * first] for region in loop.regions]
        if all(_fits(known.get(each)) for each in arguments):
            loop.attributes["narrow"] = (*loop.attributes.get("narrow", ()), arguments[-1])
            given = loop.operands[len(loop.operands) - len(loop.results) + number].owner
            places = [each for each in (given, update) if isinstance(each, Operation)]
            where = [location(function, each) for each in places]
            report("variable", "kept in 32 bits", where=where)


def _updates(loop: Operation) -> list[tuple[int, Operation]]:
    """Return the numbers of the variables that a loop changes by a factor, and the updates."""
    body = loop.regions[-1]
    first = len(body.arguments) - len(loop.results)
    found = []
    for number, value in enumerate(body.yielded):
        update = value.owner
        if (
            isinstance(update, Operation)
            and value.type == types.int64
            and operator_of(update) in _UPDATES
            and update.operands[0] is body.arguments[first + number]
            and (constant_number(update.operands[1]) or 0) > 0
        ):
            found.append((number, update))
    return found


def _fits(interval: Interval | None) -> bool:
    return interval is not None and interval[0] >= 0 and interval[1] <= _LARGEST
