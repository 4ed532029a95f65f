"""Version loops on a nonnegative start, where their counter indexes arrays.

An index below 0 counts from the end of its axis, which takes three or four instructions at each
access. A counter that goes up is not negative if its loop does not start below 0 ::

    for k in range(starts[i], starts[i + 1]):
        total += values[k]

runs with ``values[k]`` without that test if ``starts[i] >= 0``. The same holds for the sum of such
a counter and the index of a row in the loop. Innermost loops alone have two versions, so that code
grows by little.
"""

from __future__ import annotations

import operator

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, operator_of
from kerneldsl.ir.rewriter import clone
from targets.cpu.regions.loop_writer import LoopWriter

__all__ = ["version_nonnegative_starts"]

_LOOPS = ("for", "while", "threads")


def version_nonnegative_starts(region: Region) -> None:
    """Write two versions of such loops, in place."""
    out: list[Operation] = []
    for operation in region.operations:
        is_innermost = operation.name == "for" and not any(
            each.name in _LOOPS for inner in operation.regions for each in inner.walk()
        )
        if is_innermost:
            out += _versions(operation)
            continue
        for inner in operation.regions:
            version_nonnegative_starts(inner)
        out.append(operation)
    region.operations = out


def _versions(loop: Operation) -> list[Operation]:
    start, _, step, *_ = loop.operands
    if not start.type.signed or (constant_number(step) or 0) <= 0:
        return [loop]
    upward = clone(loop, {})
    known = _nonnegative(upward)
    marked = False
    for each in upward.walk():
        marks = _marked(each, known)
        if marks:
            each.attributes["nonnegative"] = marks
            marked = True
    if not marked:
        return [loop]
    out: list[Operation] = []
    make = LoopWriter(out)
    test = make.numba(operator.ge, make.cast(start), make.constant(0))
    results, loop.results = loop.results, [Value(v.type, loop) for v in loop.results]
    regions = [Region.of([each], *each.results) for each in (upward, loop)]
    return [*out, Operation("if", [test], (), None, regions).take_results(results)]


def _nonnegative(loop: Operation) -> set[Value]:
    """Return the counter of a loop, and the indices of rows in it that do not start below 0."""
    known = {loop.regions[0].arguments[0]}
    for each in loop.walk():
        low = constant_number(each.operands[0]) if each.name == "row" else None
        if low is not None and low >= 0:
            known.update(each.regions[0].arguments)
    return known


def _marked(access: Operation, known: set[Value]) -> tuple[bool, ...] | None:
    """Return the marks of an access if known values are not negative, ``None`` if none change."""
    marks = access.attributes.get("nonnegative")
    if marks is None or all(marks) or access.name not in ("array.load", "array.store"):
        return None
    pairs = zip(marks, access.operands[1:], strict=False)
    found = tuple(is_marked or _is_upward(value, known) for is_marked, value in pairs)
    return None if found == marks else found


def _is_upward(index: Value, known: set[Value]) -> bool:
    """Return whether an index is a sum of what is not negative."""
    made = index.owner
    if isinstance(made, Operation) and made.name == "cast":
        index = made.operands[0]
        made = index.owner
    if index in known:
        return True
    number = constant_number(index)
    if number is not None:
        return number >= 0
    if not isinstance(made, Operation) or operator_of(made) is not operator.add:
        return False
    return all(_is_upward(each, known) for each in made.operands)
