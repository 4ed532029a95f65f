"""The rewrites of a kernel that has blocks: what one worker runs for each of them.

Loops over the threads of a block become rows: x in y, and y in z.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from functools import partial

from numba import types

from kerneldsl.contract import Dim3, Specialization
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.overflow import overflowing_values
from kerneldsl.ir.ranges import Interval, ranges_of_region
from kerneldsl.ir.recognize import constant_number, indices_of
from kerneldsl.ir.rewriter import clone, replace_operations, rewrite
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.typing import Typing
from targets.cpu.regions.fission import split_at_barriers
from targets.cpu.regions.ids import WARP, guard_extent, id_patterns, runs_by_warps
from targets.cpu.regions.lanes.halves import in_halves
from targets.cpu.regions.lanes.merging import merge_rows
from targets.cpu.regions.lanes.rows import in_strips, runs_as_one
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_parts import as_a_whole
from targets.cpu.regions.row_regions import (
    hoist_shared_loads,
    hoist_shared_values,
    make_row,
    narrow_bounds,
    replace_rows,
)
from targets.cpu.regions.tiles.place import place_tiles

__all__ = ["block_region", "version_nonnegative_starts"]


def block_region(function: Function, spec: Specialization, typing: Typing) -> Region:
    """Return the region of a function, which is rewritten in place."""
    assert spec.block_dim is not None
    place_tiles(function, spec, typing)
    if spec.mode.forall_ndim and not spec.traits.uses_block:
        guard_extent(function, typing, spec.mode.forall_ndim)
    by_warps = runs_by_warps(function, spec)
    rewrite(function.body, id_patterns(typing, spec, by_warps=by_warps))
    simplify(function.body)
    mark_indices(function, wraparound=spec.options.wraparound)
    region = split_at_barriers(function, spec, typing, by_warps=by_warps)
    if spec.options.debug:
        thread_rows(region, spec.block_dim)
    else:
        _write_rows(region, WARP if by_warps else spec.block_dim, function.body.arguments)
    return region


_AXES = "xyz"
Writer = Callable[[Operation], list[Operation]]


def _write_rows(region: Region, extents: Dim3, parameters: list[Value]) -> None:
    """Write loops over threads as rows with bounds, in place; the kernel has some parameters."""
    thread_rows(region, extents)
    known = ranges_of_region(region)
    replace_rows(region, _from_inside(partial(narrow_bounds, known=known)))
    merge_rows(region, known, parameters)
    replace_rows(region, _innermost(in_halves))
    replace_rows(region, _innermost(partial(_as_a_whole, known=known)))
    replace_rows(region, _innermost(partial(_in_whole_strips, known=known)))
    version_nonnegative_starts(region)
    replace_rows(region, _innermost(hoist_shared_loads))
    simplify(region)


def _as_a_whole(row: Operation, known: Mapping[Value, Interval]) -> list[Operation]:
    """Return a row with a version for rows that pass all guards, or as it is.

    A row that is one long strip gets none. The rows of its lanes do: their guards often do not
    hold together.
    """
    return [row] if runs_as_one(row) else as_a_whole(row, known)


def _in_whole_strips(row: Operation, known: Mapping[Value, Interval]) -> list[Operation]:
    """Return a row in strips, with versions of the rows of lanes."""
    found = in_strips(row)
    if row in found:
        return found
    region = Region((), found)
    replace_rows(region, partial(as_a_whole, known=known))
    return region.operations


def thread_rows(region: Region, extents: Dim3) -> None:
    """Write each loop over threads as rows, in place."""

    def write(operation: Operation) -> list[Operation] | None:
        return _rows(operation.regions[0], extents) if operation.name == "threads" else None

    replace_operations(region, write)


def _rows(body: Region, extents: Dim3) -> list[Operation]:
    """Return the rows of threads that run a body."""
    before: list[Operation] = []
    make = LoopWriter(before)
    zero = make.constant(0)
    axes = [axis for axis, extent in zip(_AXES, extents, strict=True) if extent > 1]
    regions = {axis: Region((types.int64,)) for axis in axes}
    threads: dict[str, Value] = dict.fromkeys(_AXES, zero)
    for axis, region in regions.items():
        threads[axis] = region.arguments[0]
        threads[axis].name = f"t{axis}"
    ids = {f"threadIdx.{axis}": _replacing(thread) for axis, thread in threads.items()}
    rewrite(body, ids)
    operations = [*_numbered(body, threads, extents), *body.operations]
    for axis, region in regions.items():
        region.operations = [*operations, Operation("yield", [])]
        if operations and operations[-1].name == "yield":
            region.operations = operations
        high = make.constant(extents[_AXES.index(axis)])
        row = make_row(zero, high, region)
        row.attributes["axis"] = axis
        operations = [*hoist_shared_values(row), row]
    if not regions:
        operations = operations[:-1]
    return [*before, *operations]


def _replacing(thread: Value) -> Callable[[Operation], tuple[list[Operation], list[Value]]]:
    return lambda operation: ([], [thread])


def _numbered(body: Region, threads: dict[str, Value], extents: Dim3) -> list[Operation]:
    """Give the operations on slots the number of the thread; return what computes it."""
    accesses = [each for each in body.walk() if each.name in ("slot.load", "slot.store")]
    out: list[Operation] = []
    if not accesses:
        return out
    make = LoopWriter(out)
    number, step = threads["x"], extents[0]
    for axis, extent in zip("yz", extents[1:], strict=True):
        if extent > 1:
            place = make.numba(operator.mul, threads[axis], make.constant(step))
            number = make.numba(operator.add, place, number)
        step *= extent
    for each in accesses:
        each.operands.append(number)
    return out


def _from_inside(write: Writer) -> Writer:
    """Return what rewrites a row after those in it."""

    def visit(row: Operation) -> list[Operation]:
        replace_rows(row.regions[0], visit)
        return write(row)

    return visit


def _innermost(write: Writer) -> Writer:
    """Return what rewrites the innermost rows of a row."""

    def visit(row: Operation) -> list[Operation]:
        (region,) = row.regions
        if not any(each.name == "row" for each in region.walk()):
            return write(row)
        replace_rows(region, visit)
        return [row]

    return visit


# Version loops on a nonnegative start, where their counter indexes arrays.
#
# An index below 0 counts from the end of its axis, which takes three or four instructions at each
# access. A counter that goes up is not negative if its loop does not start below 0 ::
#
# for k in range(starts[i], starts[i + 1]): total += values[k]
#
# runs with ``values[k]`` without that test if ``starts[i] >= 0``. Other indices may then not be
# negative, too, such as the sum of the counter and the index of a row in the loop. Innermost loops
# alone have two versions, so that code grows by little.

_LOOPS = ("for", "while", "threads")


def version_nonnegative_starts(region: Region) -> None:
    """Write two versions of such loops, in place."""
    replace_operations(region, lambda each: _versions(each) if _is_innermost(each) else None)


def _is_innermost(operation: Operation) -> bool:
    return operation.name == "for" and not any(
        each.name in _LOOPS for inner in operation.regions for each in inner.walk()
    )


def _versions(loop: Operation) -> list[Operation]:
    start, _, step, *_ = loop.operands
    if not start.type.signed or (constant_number(step) or 0) <= 0:
        return [loop]
    upward = clone(loop, {})
    given = {start: (0, int(start.type.maxval))}
    region = Region((), [upward])
    overflowing = overflowing_values(region)
    known = ranges_of_region(region, overflowing=overflowing, given=given)
    if not sum(_mark(each, known) for each in upward.walk()):
        return [loop]
    out: list[Operation] = []
    make = LoopWriter(out)
    test = make.numba(operator.ge, make.cast(start), make.constant(0))
    results, loop.results = loop.results, [Value(v.type, loop) for v in loop.results]
    regions = [Region.of([each], *each.results) for each in (upward, loop)]
    return [*out, Operation("if", [test], (), None, regions).take_results(results)]


def _mark(access: Operation, known: Mapping[Value, Interval]) -> bool:
    """Mark indices of an access by their intervals; return whether that changes a mark."""
    marks = access.attributes.get("nonnegative")
    if marks is None or access.name not in ("array.load", "array.store"):
        return False
    pairs = zip(marks, indices_of(access), strict=False)
    found = tuple(is_marked or known.get(value, (-1, -1))[0] >= 0 for is_marked, value in pairs)
    access.attributes["nonnegative"] = found
    return bool(found != marks)
