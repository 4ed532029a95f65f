"""Integers that an atomic function compares with elements of another type.

The number is converted to the type of the elements first. The maximum of a uint32 and -7 is that of
the uint32 and 2**32 - 7. A number that is stored or added gives its bits, as in an assignment to an
element. A number that is compared does not.

A number is found if it changes its sign. One that only loses its upper bits is found if it was
loaded from wider elements: Numba's arithmetic of narrower ones is 64 bits wide.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from numba import types

from kerneldsl.contract.findings import Finding
from kerneldsl.frontend.expressions import folded
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.findings.flow import Flow, is_signed, is_unsigned
from kerneldsl.ir.nonnegative import nonnegative_values
from kerneldsl.ir.operations import Function, Operation, Value
from kerneldsl.ir.recognize import constant_number

__all__ = ["changed_extremes"]

#: Atomic functions that compare a number with an element.
_COMPARING = frozenset(f"atomic.{name}" for name in ("cas", "dec", "inc", "max", "min"))
#: Position of the number among their arguments.
_COMPARED = 2


def changed_extremes(flow: Flow, function: Function) -> Iterator[Finding]:
    """Yield the numbers that change before they are compared."""
    calls = {
        operation: value
        for operation in flow.operations
        if operation.name in _COMPARING and (value := _converted(operation)) is not None
    }
    wanted = {each: [value] for each, value in calls.items() if is_signed(value)}
    known = nonnegative_values(function, wanted) if wanted else {}
    for operation, value in calls.items():
        may_be_negative = operation in known and not known[operation][0]
        if _changes(flow, value, operation.operands[_COMPARED], may_be_negative=may_be_negative):
            yield _finding(flow, operation, value)


def _converted(call: Operation) -> Value | None:
    """Return the integer that a call converts, if it does."""
    made = call.operands[_COMPARED].owner
    if not isinstance(made, Operation) or made.name != "cast" or "written" in made.attributes:
        return None
    (value,) = made.operands
    kinds = value.type, made.result.type
    return value if all(isinstance(kind, types.Integer) for kind in kinds) else None


def _changes(flow: Flow, value: Value, element: Value, *, may_be_negative: bool) -> bool:
    least, largest = int(element.type.minval), int(element.type.maxval)
    number = constant_number(value)
    if number is not None:
        return not least <= number <= largest
    if may_be_negative and least == 0:
        return not flow.is_below(value, largest + 1)
    if value.type.maxval <= largest:
        return False
    if all(_is_loaded(each) for each in flow.sources(value)):
        return not flow.is_below(value, largest + 1)
    # Of computed values, only a uint64 that is stored to a signed type is reported.
    return is_unsigned(value) and least < 0 and not flow.is_below(value, 2**63)


def _is_loaded(value: Value) -> bool:
    """Return whether a number is an element of an array as it is."""
    return isinstance(value.owner, Operation) and value.owner.name == "array.load"


def _finding(flow: Flow, operation: Operation, value: Value) -> Finding:
    call: Part = operation.source
    unit, node = call
    assert isinstance(node, ast.Call)
    element, given = operation.operands[_COMPARED].type, node.args[_COMPARED]
    source = flow.assigned(given.id, value) if isinstance(given, ast.Name) else None
    parts = (
        Part(unit, given),
        Part(unit, node.args[0]),
        Part(unit, node.func),
        source.place if source is not None else Part(unit, given),
        call,
    )
    changed, remedy = (
        (f"a negative number is 2**{element.bitwidth} too large", "where it is never negative")
        if not element.signed and value.type.signed
        else ("a number that does not fit wraps around", "where it always fits")
    )
    if folded(given) is not None:
        remedy = "where that is meant"
    return Finding(
        call,
        f"{{0.text}} is {value.type} (line {{3.line}}) and the elements of {{1.text}} are "
        f"{element}: {{2.text}} compares them as {element} (line {{4.line}}), in which {changed}. "
        f"Write np.{element}({{0.text}}) {remedy}.",
        parts,
    )
