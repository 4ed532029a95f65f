"""Unsigned differences, and negated unsigned numbers, where their size matters.

Numba computes unsigned numbers of fewer than 64 bits as uint64. A negative difference of two of
them is then 2**64 too large. That shows if its size matters: in ``abs``, as a float, beside a
negative number, as a bound of a range. A difference that a literal makes unsigned here
(``a[i] - 1`` of uint64) is an int64 in Numba. It differs in indices, quotients, right shifts and
comparisons.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator

import numpy as np
from numba import types

from kerneldsl.contract.findings import Finding
from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.findings.flow import Flow, Place, is_unsigned
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import (
    MIRRORED,
    comparison_of,
    constant_number,
    operator_of,
    parts_of,
    reached,
)

__all__ = ["unsigned_differences"]


_NEGATIONS = (operator.neg, operator.invert)
_SIZES = (abs, np.absolute)
_ORDERED = (operator.lt, operator.le, operator.gt, operator.ge)
_COMPARISONS = (*_ORDERED, operator.eq, operator.ne, operator.not_, bool)
_SHIFTS = (operator.lshift, operator.rshift)
_ACCESSES = ("array.load", "array.store", "array.part", "array.view", "packed.load")
_USES = {
    "abs": "abs() leaves it as it is",
    "compared": "it is never negative",
    "index": "it is an index",
    "range": "it is a bound of a range",
    "number": "it is used as a number that is never negative",
}


def unsigned_differences(flow: Flow) -> Iterator[Finding]:
    """Yield the differences with a sign that is lost, if a result shows it."""
    by_literals: set[Value] | None = None
    for operation in flow.operations:
        if not _is_difference(operation):
            continue
        is_difference = len(operation.operands) == 2
        if is_difference and are_ordered(flow, operation):
            continue
        if _is_made_up_for(flow, operation):
            continue
        if by_literals is None:
            by_literals = _made_by_literals(flow)
        is_by_literal = not by_literals.isdisjoint((*operation.operands, operation.result))
        # ``~x`` of a uint8 is 255 - x, also as a float.
        is_inverted = operator_of(operation) is operator.invert
        for place in flow.observed([operation.result]):
            becomes = _becomes(place)
            is_size = not is_inverted and (
                becomes in ("abs", "compared", "range") or becomes not in _USES
            )
            if is_by_literal or is_size or not by_literals.isdisjoint(place.operation.results):
                yield _finding(operation, place.operation.source, becomes)
                break


def _is_difference(operation: Operation) -> bool:
    function = operator_of(operation)
    if function is not operator.sub and function not in _NEGATIONS:
        return False
    node = operation.source.node
    is_written = isinstance(node, ast.BinOp | ast.UnaryOp) or (
        isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name)
    )
    return is_written and all(map(is_unsigned, (*operation.operands, operation.result)))


def _is_made_up_for(flow: Flow, operation: Operation) -> bool:
    """Return whether a sign is lost at once.

    As much as is subtracted at most is added to a difference, or its bits are masked.
    """
    uses = list(flow.uses(operation.result))
    if len(uses) != 1 or flow.handed_on(operation.result):
        return False
    ((user, position),) = uses
    function = operator_of(user)
    if function is operator.and_:
        return True
    if function is operator.add and len(operation.operands) == 2:
        added = constant_number(user.operands[1 - position])
        return added is not None and flow.interval(operation.operands[1])[1] <= added
    return False


def _made_by_literals(flow: Flow) -> set[Value]:
    """Return the values that are uint64 because a literal was given that type."""

    def onward(value: Value) -> Iterator[Value]:
        yield from flow.handed_on(value)
        for operation, position in flow.uses(value):
            if _keeps_type(operation, position):
                yield from operation.results

    literals = (each.result for each in flow.operations if "literal" in each.attributes)
    return set(reached(literals, onward))


def _keeps_type(operation: Operation, position: int) -> bool:
    """Return whether the type of an operand decides that of the result."""
    match operation.name:
        case "numba":
            function = operator_of(operation)
            return function not in _COMPARISONS and not (function in _SHIFTS and position)
        case "cast":
            return "written" not in operation.attributes
        case "tuple.make" | "tuple.member":
            return True
    return "use" in operation.attributes


def _becomes(place: Place) -> str:
    """Return what a value becomes in the operation that observes it."""
    operation, position = place
    function, source = operator_of(operation), operation.source.node
    if any(function is each for each in _SIZES):
        return "abs"
    if function in _ORDERED:
        other = constant_number(operation.operands[1 - position])
        is_chain = isinstance(source, ast.Compare) and len(source.ops) > 1
        is_low = other is not None and other <= 0 and not is_chain
        return "compared" if is_low else "number"
    if operation.name in _ACCESSES:
        return "index"
    if "bounds_range" in operation.attributes:
        return "range"
    kinds = [value.type for value in operation.results]
    floats = (str(kind) for kind in kinds if isinstance(kind, types.Float | types.Complex))
    return next(floats, "number")


def _finding(operation: Operation, use: Part, becomes: str) -> Finding:
    said = _USES.get(becomes, f"it is converted to {becomes}")
    place: Part = operation.source
    unit, node = place
    match node:
        case ast.BinOp(left=left, right=right):
            text, remedy = "{0.text}", _signed_difference(operation)
            parts = place, use, Part(unit, left), Part(unit, right)
        case ast.AugAssign(target=left, value=right):
            text, remedy = "{2.text} - {3.text}", "{2.text} = " + _signed_difference(operation)
            parts = place, use, Part(unit, left), Part(unit, right)
        case ast.UnaryOp(op=op, operand=operand):
            text = "{0.text}"
            remedy = f"{'-' if isinstance(op, ast.USub) else '~'}np.int64({{2.text}})"
            parts = place, use, Part(unit, operand), Part(unit, operand)
    is_difference = len(operation.operands) == 2
    what = "difference" if is_difference else "number"
    dtype = operation.result.type if is_difference else operation.operands[0].type
    return Finding(
        place,
        f"{text} is a {dtype}, and {said} (line {{1.line}}): a negative {what} is "
        f"2**{dtype.bitwidth} too large. Write {remedy}, or np.{dtype}({text}) where it is never "
        "negative.",
        parts,
    )


def _signed_difference(operation: Operation) -> str:
    right = operation.operands[1]
    is_wide = right.type == types.uint64 and constant_number(right) is None
    return f"np.int64({{2.text}}) - {'np.int64({3.text})' if is_wide else '{3.text}'}"


# -- the order of the operands ---------------------------------------------------------------------


_REDUCES = (operator.floordiv, operator.mod, operator.and_, operator.rshift)


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
    if isinstance(made, Operation) and operator_of(made) is operator.add:
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
    for part, truth in parts_of(condition, True):
        if isinstance(made := part.owner, Operation) and operator_of(made) is bool:
            part = made.operands[0]
        if truth:
            yield part


def _says(flow: Flow, condition: Value, left: Value, right: Value, most: int) -> bool:
    """Return whether a condition says that an operand is at least the other."""
    function, (one, two) = comparison_of(condition, True) or (None, [condition] * 2)
    if function in (operator.lt, operator.le):
        one, two, function = two, one, MIRRORED[function]
    elif function not in (operator.gt, operator.ge, operator.ne):  # it is true: not 0
        return most <= 1 and flow.are_same(condition, left)
    if not flow.are_same(one, left):
        return False
    if function is not operator.ne and flow.are_same(two, right):
        return True
    least = constant_number(two)
    if least is None or (function is operator.ne and least != 0):
        return False
    return most <= (least if function is operator.ge else least + 1)
