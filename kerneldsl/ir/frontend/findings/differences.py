"""Unsigned differences, and negated unsigned numbers, where their size matters.

Numba computes unsigned numbers of fewer than 64 bits as uint64. A negative difference of two of
them is then 2**64 too large. That shows if its size matters: in ``abs``, as a float, beside a
negative number. A difference that a literal makes unsigned here (``a[i] - 1`` of uint64) is an
int64 in Numba. It differs in indices, quotients, right shifts and comparisons.
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
from kerneldsl.ir.frontend.findings.ordered import are_ordered
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.recognize import constant_number, operator_of

__all__ = ["unsigned_differences"]

_DIFFERENCES = (operator.sub, operator.isub)
_NEGATIONS = (operator.neg, operator.invert)
_AND = (operator.and_, operator.iand)
_SIZES = (abs, np.absolute)
_ORDERED = (operator.lt, operator.le, operator.gt, operator.ge)
_COMPARISONS = (*_ORDERED, operator.eq, operator.ne, operator.not_, bool)
_SHIFTS = (operator.lshift, operator.ilshift, operator.rshift, operator.irshift)
_ACCESSES = ("array.load", "array.store", "array.part", "array.view", "packed.load")
_USES = {
    "abs": "abs() leaves it as it is",
    "compared": "it is never negative",
    "index": "it is an index",
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
            is_size = not is_inverted and (becomes in ("abs", "compared") or becomes not in _USES)
            if is_by_literal or is_size or not by_literals.isdisjoint(place.operation.results):
                yield _finding(operation, place.operation.source, becomes)
                break


def _is_difference(operation: Operation) -> bool:
    function = operator_of(operation)
    if function not in _DIFFERENCES and function not in _NEGATIONS:
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
    if function in _AND:
        return True
    if function in (operator.add, operator.iadd) and len(operation.operands) == 2:
        added = constant_number(user.operands[1 - position])
        return added is not None and flow.interval(operation.operands[1])[1] <= added
    return False


def _made_by_literals(flow: Flow) -> set[Value]:
    """Return the values that are uint64 because a literal was given that type."""
    pending = [
        operation.result for operation in flow.operations if "literal" in operation.attributes
    ]
    found = set(pending)
    while pending:
        value = pending.pop()
        onward = [*flow.handed_on(value)]
        for operation, position in flow.uses(value):
            if _keeps_type(operation, position):
                onward += operation.results
        pending += [each for each in onward if each not in found]
        found.update(onward)
    return found


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
