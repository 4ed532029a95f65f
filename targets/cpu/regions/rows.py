"""The loops over the elements of a call, row by row, and the axis that rows run along.

Neighbouring indices of a row should access neighbouring elements. Rows run along the last axis of
``forall``'s extent, unless more bytes lie side by side along the first. That is so if a kernel
indexes ``a[y, x]`` with ``x, y = kd.grid(2)``, or in Fortran order.
"""

from __future__ import annotations

from typing import Any, Literal

from llvmlite import ir

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import LOOPS, Effect, Operation, Region
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL
from kerneldsl.planner.work import orient
from targets.cpu.math.workarounds import divide_unsigned
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter
from targets.cpu.regions.row_regions import loop_takes_any_order

__all__ = ["HANDLERS", "axes_of_rows", "row_axis", "write_rows"]

_I64 = ir.IntType(64)
#: Words of the launch that describe the space.
SEGMENT, NX = 2, 3


def row_axis(spec: Specialization, work: KernelWork) -> Literal["first", "last"]:
    """Return the axis of the extent that the rows of an element kernel run along, by its work.

    Without ``forall``, x is the first axis of the grid, whatever is touched.
    """
    rank = spec.mode.forall_ndim
    if rank is None or rank == 1 or spec.options.debug:
        return "last"
    last, first = (work.body(x_is_last=is_last) for is_last in (True, False))
    return "first" if orient(last, first, spec.kinds, spec.promises).is_first else "last"


def axes_of_rows(spec: Specialization, work: KernelWork) -> str:
    """Return the axes of rows that the axes of ``grid`` are."""
    rank = spec.mode.forall_ndim
    if rank is None or row_axis(spec, work) == "first":
        return "xyz"
    return "xyz"[:rank][::-1] + "xyz"[rank:]


def write_rows(emitter: CpuEmitter, region: Region, work: KernelWork) -> None:
    """Write the loops over the parts of rows of a call, for a kernel that does some work."""
    builder = emitter.builder
    segment = emitter.word(SEGMENT)
    sizes = {axis: emitter.word(NX + number) for number, axis in enumerate("xyz")}
    emitter.axes = axes_of_rows(emitter.spec, work)
    emitter.ids |= {f"gridsize.{axis}": value for axis, value in sizes.items()}
    emitter.ids["warpsize"] = _I64(WARP_SIZE)
    if emitter.spec.mode.forall_ndim == 1:
        low = builder.mul(emitter.first, segment)
        high = emitter.smaller(builder.mul(emitter.last, segment), sizes["x"])
        emitter.ids |= {"row.low": low, "row.high": high, "grid.y": _I64(0), "grid.z": _I64(0)}
        emitter.region(region)
        return
    before = builder.block
    head, body, end = (builder.append_basic_block(name) for name in ("rows", "part", "no_rows"))
    builder.branch(head)
    builder.position_at_end(head)
    first = builder.phi(_I64, "first")
    first.add_incoming(emitter.first, before)
    builder.cbranch(builder.icmp_signed("<", first, emitter.last), body, end)
    builder.position_at_end(body)
    z, first_y, last_y, piece, last_piece, after = _row_pieces(
        emitter, first, emitter.last, segment, sizes["x"], sizes["y"]
    )
    with CountedLoop(builder, piece, last_piece) as unit:
        low = builder.mul(unit, segment)
        high = emitter.smaller(builder.add(low, segment), sizes["x"])
        with CountedLoop(builder, first_y, last_y) as y:
            emitter.ids |= {"row.low": low, "row.high": high, "grid.y": y, "grid.z": z}
            emitter.region(region)
    first.add_incoming(after, builder.block)
    builder.branch(head)
    builder.position_at_end(end)


def _row_pieces(
    emitter: CpuEmitter, first: Any, last: Any, segment: Any, nx: Any, ny: Any
) -> tuple[Any, ...]:
    """Return the pieces of rows from a unit on that run in one loop, and the unit after them.

    ``z, first_y, last_y, first_piece, last_piece, after``: rows of one piece each run together,
    and pieces of one row.
    """
    builder, one = emitter.builder, _I64(1)
    segments, _ = divide_unsigned(builder, builder.sub(builder.add(nx, segment), one), segment)
    row, piece = divide_unsigned(builder, first, segments)
    z, first_y = divide_unsigned(builder, row, ny)
    left = builder.sub(last, first)
    last_piece = emitter.smaller(builder.add(piece, left), segments)
    rows = emitter.smaller(builder.add(first_y, left), ny)
    are_whole = builder.icmp_signed("==", segments, one)
    last_y = builder.select(are_whole, rows, builder.add(first_y, one))
    count = builder.mul(builder.sub(last_piece, piece), builder.sub(last_y, first_y))
    return z, first_y, last_y, piece, last_piece, builder.add(first, count)


def _row(emitter: CpuEmitter, operation: Operation) -> None:
    """Write the loop over a row, or its only iteration."""
    low, high = map(emitter.get, operation.operands)
    is_constant = isinstance(low, ir.Constant) and isinstance(high, ir.Constant)
    count = high.constant - low.constant if is_constant else None
    if count is not None and count <= 1:
        if count == 1:
            _iteration(emitter, operation, low)
        return
    axis = operation.attributes.get("axis", "x")
    marks = operation.attributes.get("marks", (NOT_UNROLLED,) if is_constant else ())
    wishes = (*marks, *_order(emitter, operation)) if axis == "x" else ()
    with CountedLoop(emitter.builder, low, high, *wishes) as index:
        _iteration(emitter, operation, index)


def _order(emitter: CpuEmitter, row: Operation) -> tuple[str, ...]:
    """Return the marks of the loop over a row by the order that its accesses need."""
    (region,) = row.regions
    if not loop_takes_any_order(region):
        return ()
    *before, _ = [Effect.NONE, *(each.effect for each in region.walk() if each.effect)]
    has_loops = any(each.name in LOOPS for each in region.walk())
    if not has_loops and not any(each & Effect.WRITE for each in before):
        return (PARALLEL,)
    from targets.cpu.regions.lanes.reordering import (
        Order,
        order_of,
    )  # many kernels store at the end

    order = order_of(row, emitter.parameters)
    if order is Order.COMPARED:
        return ()
    return (PARALLEL,) if order is Order.ANY else (PARALLEL, NOT_UNROLLED)


def _iteration(emitter: CpuEmitter, operation: Operation, index: ir.Value) -> None:
    axis = operation.attributes.get("axis")
    if axis is not None:
        emitter.ids[f"threadIdx.{axis}"] = index
    (region,) = operation.regions
    emitter.values[region.arguments[0]] = index
    emitter.operations(region.operations[:-1])


HANDLERS: dict[str, Any] = {"row": _row}
