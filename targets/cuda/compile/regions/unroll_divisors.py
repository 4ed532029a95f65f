"""Mark the loops that divide by what they multiply: in full, their divisors are numbers.

The stages of a Fourier transform, or of a sort, divide by a distance that each of them doubles.
Where the loop is unrolled, quotients and remainders become shifts and masks, and quotients of
floats become products.
"""

from __future__ import annotations

import operator

from kerneldsl.contract import Report
from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, operator_of
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED
from targets.cuda.compile.regions.walks import LOOPS, leads_to, statements_in

__all__ = ["unroll_divisors"]

#: What is written so often in full: statements, and iterations.
_MOST_STATEMENTS, _MOST_TURNS = 16, 12
_RELATIONS = (operator.lt, operator.le, operator.gt, operator.ge)
_STEPS = (operator.mul, operator.floordiv, operator.lshift, operator.rshift)
_DIVISIONS = (operator.truediv, operator.floordiv, operator.mod)


def unroll_divisors(function: Function, report: Report) -> None:
    """Mark such loops.

    The variable begins with a number, and is multiplied or divided by a number at the end of each
    iteration.
    """
    count = 0
    for loop in function.body.walk():
        if loop.name == "while" and _is_fit(loop):
            loop.attributes["unroll"] = FULLY_UNROLLED
            count += 1
    report("loop", "unrolled, as it divides by what it multiplies", count)


def _is_fit(loop: Operation) -> bool:
    before, body = loop.regions
    test = before.yielded[0].owner
    if not isinstance(test, Operation) or operator_of(test) not in _RELATIONS or body.is_left:
        return False
    if test.operands[0] not in before.arguments:
        return False
    number = before.arguments.index(test.operands[0])
    variable, update = body.arguments[number], body.yielded[number].owner
    if not isinstance(update, Operation) or operator_of(update) not in _STEPS:
        return False
    factor, start = constant_number(update.operands[1]), constant_number(loop.operands[number])
    bound = constant_number(test.operands[1])
    if update.operands[0] is not variable or factor is None or start is None or bound is None:
        return False
    if not 0 < factor <= 64 or not _divides_by(variable, body, update):
        return False
    holds, change = operator_of(test), operator_of(update)
    for _ in range(_MOST_TURNS + 1):
        if not holds(start, bound):
            return True
        start = change(start, factor)
    return False


def _divides_by(variable: Value, body: Region, update: Operation) -> bool:
    """Return whether a straight body divides by a variable."""
    inside = list(body.walk())
    if body.effects() & Effect.LEAVE or any(each.name in LOOPS for each in inside):
        return False
    return statements_in(body) <= _MOST_STATEMENTS and any(
        operator_of(each) in _DIVISIONS and leads_to(variable, each.operands[1:])
        for each in inside
        if each is not update
    )
