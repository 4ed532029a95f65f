"""The loops over the elements of a call, row by row."""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.simplify import simplify
from kerneldsl.lowering.loop_marks import PARALLEL
from kerneldsl.lowering.numba_internals.regions import (
    code_of_intrinsic,
)
from targets.cpu.codegen.orientation import row_axis
from targets.cpu.intrinsics.units import row_pieces
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loops import CountedLoop

__all__ = ["write_rows"]

_I64 = ir.IntType(64)

#: Words of the launch that describe the space.
SEGMENT, NX = 2, 3


def write_rows(emitter: CpuEmitter, region: Region) -> None:
    """Write the loops over the elements of a call."""
    builder = emitter.builder
    segment = emitter.word(SEGMENT)
    sizes = {axis: emitter.word(NX + number) for number, axis in enumerate("xyz")}
    rank = emitter.spec.mode.forall_ndim
    along = row_axis(emitter.spec)
    emitter.axes = "xyz" if rank is None or along == "first" else "xyz"[:rank][::-1]
    emitter.ids |= {f"gridsize.{axis}": value for axis, value in sizes.items()}
    if rank == 1:
        low = builder.mul(emitter.first, segment)
        high = emitter.smaller(builder.mul(emitter.last, segment), sizes["x"])
        emitter.ids |= {"grid.y": _I64(0), "grid.z": _I64(0)}
        _row(emitter, region, low, high)
        return
    pieces_of = code_of_intrinsic(row_pieces, *[types.int64] * 5)
    signature = types.UniTuple(types.int64, 6)(*[types.int64] * 5)
    before = builder.block
    head, body, end = (builder.append_basic_block(name) for name in ("rows", "part", "no_rows"))
    builder.branch(head)
    builder.position_at_end(head)
    first = builder.phi(_I64, "first")
    first.add_incoming(emitter.first, before)
    builder.cbranch(builder.icmp_signed("<", first, emitter.last), body, end)
    builder.position_at_end(body)
    given = (first, emitter.last, segment, sizes["x"], sizes["y"])
    found = pieces_of(emitter.context, builder, signature, given)
    z, first_y, last_y, piece, last_piece, after = (
        builder.extract_value(found, number) for number in range(6)
    )
    emitter.ids["grid.z"] = z
    with CountedLoop(builder, piece, last_piece) as unit:
        low = builder.mul(unit, segment)
        high = emitter.smaller(builder.add(low, segment), sizes["x"])
        with CountedLoop(builder, first_y, last_y) as y:
            emitter.ids["grid.y"] = y
            kept = dict(emitter.values)
            _row(emitter, region, low, high)
            emitter.values = kept
    first.add_incoming(after, builder.block)
    builder.branch(head)
    builder.position_at_end(end)


def _row(emitter: CpuEmitter, region: Region, low: Any, high: Any) -> None:
    """Write the loop over a part of a row, within the bounds that the guard sets."""
    builder = emitter.builder
    operations = region.operations[:-1]
    branch = operations[-1] if operations else None
    tests: list[tuple[Operation, Value]] | None = None
    if branch is not None and branch.name == "if" and not branch.results:
        is_alone = len(branch.regions[1].operations) == 1
        tests = _limits_of(branch.operands[0]) if is_alone else None
    if tests is None or branch is None:
        with CountedLoop(builder, low, high, PARALLEL) as index:
            emitter.ids["grid.x"] = index
            emitter.operations(operations)
        return
    before = operations[:-1]
    outside = set().union(*(_needed(limit, before) for _, limit in tests))
    emitter.operations([each for each in before if each in outside])
    passes: Any = None
    for index_of, limit in tests:
        axis = emitter.axes[index_of.attributes.get("axis", 0)]
        bound = emitter.get(limit)
        if axis == "x":
            high = emitter.smaller(high, bound)
        else:
            is_inside = builder.icmp_signed("<", emitter.ids[f"grid.{axis}"], bound)
            passes = is_inside if passes is None else builder.and_(passes, is_inside)
    if passes is not None:
        high = builder.select(passes, high, low)
    inside = [each for each in before if each not in outside]
    inner = Region()
    inner.operations = [*inside, *branch.regions[0].operations]
    simplify(inner)
    with CountedLoop(builder, low, high, PARALLEL) as index:
        emitter.ids["grid.x"] = index
        emitter.operations(inner.operations[:-1])


def _limits_of(condition: Value) -> list[tuple[Operation, Value]] | None:
    """Return the indices of an element that a condition compares, and their limits."""
    test = condition.owner
    if not isinstance(test, Operation):
        return None
    if test.name == "if" and len(test.results) == 1:
        yes, no = test.regions
        (second,), (otherwise,) = yes.yielded, no.yielded
        if otherwise is not test.operands[0]:
            return None
        parts = [_limits_of(test.operands[0]), _limits_of(second)]
        if None in parts:
            return None
        inner = {result for each in yes.walk() for result in each.results}
        found = [pair for part in parts if part is not None for pair in part]
        return None if any(limit in inner for _, limit in found) else found
    if test.attributes.get("function") is not operator.lt:
        return None
    index, limit = test.operands
    made, size = index.owner, limit.owner
    is_index = isinstance(made, Operation) and made.name == "grid"
    is_size = isinstance(size, Operation) and size.name in ("array.size", "array.extent")
    return [(made, limit)] if is_index and is_size and isinstance(made, Operation) else None


def _needed(value: Value, operations: list[Operation]) -> set[Operation]:
    found: set[Operation] = set()
    pending = [value]
    while pending:
        made = pending.pop().owner
        if isinstance(made, Operation) and made in operations and made not in found:
            found.add(made)
            pending += made.operands
    return found
