"""The loops over the elements of a call, row by row, and the axis that rows run along.

Neighbouring indices of a row should access neighbouring elements. Rows run along the last axis of
``forall``'s extent, unless more bytes lie side by side along the first. That is so if a kernel
indexes ``a[y, x]`` with ``x, y = kd.grid(2)``, or in Fortran order.

Iterations of a row may run in any order, and its loop is marked so. LLVM's vectorizer then takes
all accesses for independent, also those of one iteration. It combines accesses that are a constant
stride apart: all are loaded before the first, and stored after the last. A thread must load what it
stored ::

    out[2 * i] = x[2 * i] * c - x[2 * i + 1] * s
    out[2 * i + 1] = x[2 * i] * s + x[2 * i + 1] * c      # x may be out

Such a row is not marked, and LLVM compares addresses. Elements that are side by side are not
combined, unless LLVM unrolls the loop before (docs/upstream.md).
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Literal

from llvmlite import ir
from numba import types

from kerneldsl.analysis.work import KernelWork
from kerneldsl.contract import Specialization
from kerneldsl.ir.operations import LOOPS, Effect, Operation, Region, Value
from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.ir.recognize import operands_of, operator_of
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL
from kerneldsl.planner.work import orient
from targets.cpu.codegen.storage import is_of_block, may_share
from targets.cpu.math.workarounds import divide_unsigned
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter
from targets.cpu.regions.row_regions import loop_takes_any_order
from targets.cpu.runtime.native_tables import LaunchWord

if TYPE_CHECKING:
    from targets.cpu.regions.lanes.values import LaneValues

__all__ = ["HANDLERS", "axes_of_rows", "row_axis", "write_rows"]

_I64 = ir.IntType(64)


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
    segment = emitter.word(LaunchWord.SPACE)
    sizes = {axis: emitter.word(LaunchWord.SPACE + 1 + n) for n, axis in enumerate("xyz")}
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
    order = _order_of(row, emitter.parameters)
    if order is _Order.COMPARED:
        return ()
    return (PARALLEL,) if order is _Order.ANY else (PARALLEL, NOT_UNROLLED)


def _iteration(emitter: CpuEmitter, operation: Operation, index: ir.Value) -> None:
    axis = operation.attributes.get("axis")
    if axis is not None:
        emitter.ids[f"threadIdx.{axis}"] = index
    (region,) = operation.regions
    emitter.values[region.arguments[0]] = index
    emitter.operations(region.operations[:-1])


HANDLERS: dict[str, Any] = {"row": _row}


#: Operators of sums and products, also of ``or`` without common bits.
_AFFINE = (operator.add, operator.sub, operator.mul, operator.lshift, operator.or_, operator.neg)
_STORES = ("array.store", "item.set")


class _Order(enum.Enum):
    """Needs of the accesses of one iteration of a row."""

    ANY = enum.auto()
    #: The loop must not be unrolled before LLVM vectorizes it.
    SIDE_BY_SIDE = enum.auto()
    #: The loop must compare addresses.
    COMPARED = enum.auto()


def _order_of(row: Operation, parameters: Collection[Value]) -> _Order:
    """Return what the accesses of one iteration need, in a kernel with some parameters."""
    pairs = [
        (one, two)
        for one, two in _pairs(row.regions[0])
        if may_share(_array(one), _array(two), parameters)
    ]
    if not pairs:
        return _Order.ANY
    from targets.cpu.regions.lanes.values import LaneValues

    values = LaneValues(row)
    accesses = {access for pair in pairs for access in pair}
    if any(_is_strided(each, values) for each in accesses):
        return _Order.COMPARED
    # LLVM does not unroll rows without loops before it vectorizes them.
    has_loops = any(each.name in LOOPS for each in row.regions[0].walk())
    return _Order.SIDE_BY_SIDE if has_loops else _Order.ANY


def _pairs(region: Region) -> Iterator[tuple[Operation, Operation]]:
    """Yield each store with each access that may run after it."""
    stores: list[Operation] = []
    for operation in region.operations:
        if operation.regions:
            inner = [each for each in operation.walk() if _is_access(each)]
            again = [each for each in inner if each.name in _STORES]
            yield from ((one, two) for one in stores for two in inner)
            if operation.name in LOOPS:
                yield from ((one, two) for one in again for two in inner)
            else:
                for each in operation.regions:
                    yield from _pairs(each)
            stores += again
        elif _is_access(operation):
            yield from ((one, operation) for one in stores)
            if operation.name in _STORES:
                stores.append(operation)


def _is_access(operation: Operation) -> bool:
    return operation.name in _STORES or operation.name in ("array.load", "item")


def _array(access: Operation) -> Value:
    """Return the array that an access is of, or the record itself."""
    found = access.operands[0]
    made = found.owner
    if access.name.startswith("item") and isinstance(made, Operation) and made.operands:
        found = made.operands[0]
    return found


def _is_strided(access: Operation, values: LaneValues) -> bool:
    """Return whether LLVM may know that neighbours access elements that are some apart."""
    if access.name.startswith("item") or isinstance(access.operands[0].type.dtype, types.Record):
        return True
    from targets.cpu.regions.lanes.values import place_of

    array, indices = place_of(access)
    if array.type.layout == "A":
        return False
    if array.type.layout == "F":
        indices = indices[::-1]
    if not indices:
        return False
    *rows, last = indices
    if any(each in values.varying for each in rows):
        return is_of_block(array)
    return values.stride(last) not in (0, 1, -1) and _is_affine(last, values)


def _is_affine(index: Value, values: LaneValues) -> bool:
    """Return whether LLVM may find that an index grows by a constant from thread to thread."""
    if index is values.lane or index not in values.varying:
        return True
    made = index.owner
    if not isinstance(made, Operation):
        return False
    is_sum = made.name == "cast" or operator_of(made) in _AFFINE
    return is_sum and all(_is_affine(each, values) for each in operands_of(made))
