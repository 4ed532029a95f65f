"""The rewrites of a kernel that has no blocks: rows of elements."""

from __future__ import annotations

import operator
from functools import partial

from kerneldsl.contract import Specialization
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Region
from kerneldsl.ir.ranges import INTERVALS, ranges_of
from kerneldsl.ir.recognize import operator_of
from kerneldsl.ir.simplify import simplify
from kerneldsl.lowering.loop_marks import NOT_INTERLEAVED
from targets.cpu.regions.row_bounds import narrowed
from targets.cpu.regions.row_parts import in_parts
from targets.cpu.regions.row_regions import element_rows, loaded_once, replace_rows
from targets.cpu.regions.rows import axes_of_rows

__all__ = ["element_region"]

_INDEX = (0, 2**62)
#: Loads of an element that keep a processor busy with one vector at a time.
_MANY = 6
_LOOPS = {"for", "for_each", "while", "labeled"}
_XOR = {operator.xor, operator.ixor}


def element_region(function: Function, spec: Specialization) -> Region:
    """Return the region of a function, which is rewritten in place."""
    body, axes = function.body, axes_of_rows(spec, function.work)
    simplify(body)
    mark_indices(function, INTERVALS, wraparound=spec.options.wraparound)
    if spec.options.debug:
        element_rows(function, axes)
    else:
        _write_rows(function, axes)
    return body


def _write_rows(function: Function, axes: str) -> None:
    """Write the body of a kernel as rows, in place.

    `axes` are the axes of rows that the axes of ``grid`` are.
    """
    body = function.body
    # Many kernels have no loops, and import nothing that rewrites these.
    has_loops = any(each.name in _LOOPS for each in body.walk())
    known = ranges_of(function, {"grid": _INDEX})
    index = element_rows(function, axes)
    known |= {each.result: _INDEX for each in body.operations if each.name.startswith("grid.")}
    known[index] = _INDEX
    replace_rows(body, partial(narrowed, known=known))
    if any(operator_of(each) in _XOR for each in body.walk()):
        from targets.cpu.regions.lanes.halves import in_halves

        replace_rows(body, in_halves)
    replace_rows(body, partial(in_parts, known=known))
    if has_loops:
        from targets.cpu.regions.lanes.rows import in_strips
        from targets.cpu.regions.nonnegative_starts import version_nonnegative_starts

        replace_rows(body, in_strips)
        version_nonnegative_starts(body)
    replace_rows(body, loaded_once)
    simplify(body)
    _mark_short_rows(body)


def _mark_short_rows(body: Region) -> None:
    """Have LLVM compute one vector at a time in the rows of volumes, which are short.

    With several at a time, much of a row of 64 elements would be left for the loop after them.
    """
    if not any(each.name == "grid.z" for each in body.operations):
        return
    for row in body.walk():
        if row.name == "row" and sum(each.name == "array.load" for each in row.walk()) >= _MANY:
            row.attributes.setdefault("marks", (NOT_INTERLEAVED,))
