"""Prologue of an entry: the indices for which a thread runs the body.

An explicit launch runs the body once in each thread. Under ``forall`` the threads of an element
kernel beyond the extent run nothing. By default each thread has one index, with the first axis
along x. A kernel that uses only ``grid`` is mapped by its
:class:`~kerneldsl.contract.ElementMapping`:

* If all items of a thread are within the extent and pass the kernel's guard, the body is in a loop
of
  constant length without a test. LLVM unrolls it, so that accesses to neighbouring elements become
  one. All items of a thread pass a marked guard (:mod:`kerneldsl.ir.guard`) if
  the first and the last along each axis do.
* Otherwise each item is tested, in a loop that is not unrolled.
* Along the axes of ``grid_stride``, threads continue from tile to tile by the size of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import product
from typing import TypeAlias

from llvmlite import ir

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import ElementMapping
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED, NOT_UNROLLED, repeat
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.calling import GuardAction
from targets.cuda.compile.parameters import assume
from targets.cuda.intrinsics.ids import read_register

__all__ = ["Body", "emit_body"]

_i1 = ir.IntType(1)
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)
#: Flags of operations that never overflow int64: extents that a grid can cover are far smaller.
_EXACT = ("nuw", "nsw")

#: Emits the body for the results of ``grid`` and ``gridsize``, three values each, and for the
#: action at its guard; returns the status.
Body: TypeAlias = Callable[[list[ir.Value], list[ir.Value], GuardAction], ir.Value]
#: Emits the body for an index along x, y and z.
_Run: TypeAlias = Callable[[Sequence[ir.Value], GuardAction], ir.Value]


def emit_body(
    builder: ir.IRBuilder,
    extent: Sequence[ir.Value],
    traits: KernelTraits,
    mapping: ElementMapping,
    body: Body,
    *,
    has_guard: bool = False,
) -> None:
    """Emit the body with the indices that the thread runs it for.

    The builder is at the end of the prologue's block, and afterwards at the end of the entry.
    `extent` is that of ``forall``, i64, in the user's order, and empty for an explicit launch.
    `body` emits the body at the builder's position, and is called once or several times. With
    `has_guard`, it can emit a test whether an index passes its guard.
    """
    if not extent:
        index = [_grid(builder, axis) for axis in "xyz"]
        body(index, [_grid_size(builder, axis) for axis in "xyz"], GuardAction.TEST)
        return
    size = [*extent, *[_i64(1)] * (3 - len(extent))]
    if not traits.uses_grid_only:
        index = [_grid(builder, axis) for axis, _ in zip("xyz", extent, strict=False)]
        if not traits.uses_block:
            _return_unless(builder, _all_below(builder, index, extent))
        body(_padded(index), size, GuardAction.TEST)
        return
    axes = mapping.axes_of(len(extent))

    def run(along: Sequence[ir.Value], guard: GuardAction) -> ir.Value:
        index = [along[axes.index(axis)] for axis in range(len(extent))]
        return body(_padded(index), size, guard)

    along_extent = [extent[axis] for axis in axes]
    if mapping.is_one_each:
        _one_each(builder, along_extent, mapping, run)
    else:
        _tiles(builder, along_extent, mapping, run, has_guard=has_guard)


def _padded(index: Sequence[ir.Value]) -> list[ir.Value]:
    return [*index, *[_i64(0)] * (3 - len(index))]


def _all_below(
    builder: ir.IRBuilder, index: Sequence[ir.Value], extent: Sequence[ir.Value]
) -> ir.Value:
    inside, *others = (builder.icmp_signed("<", i, e) for i, e in zip(index, extent, strict=True))
    for condition in others:
        inside = builder.and_(inside, condition)
    return inside


def _return_unless(builder: ir.IRBuilder, condition: ir.Value) -> None:
    with builder.if_then(builder.not_(condition)):
        builder.ret_void()


# ------------------------------------------------------------ one index a thread


def _one_each(
    builder: ir.IRBuilder,
    extent: Sequence[ir.Value],
    mapping: ElementMapping,
    run: _Run,
) -> None:
    axes = "xyz"[: len(extent)]
    index = [_grid(builder, axis) for axis in reversed(axes)][::-1]
    _return_unless(builder, _all_below(builder, index[::-1], extent[::-1]))
    with ExitStack() as loops:
        for position, axis in reversed(list(enumerate(axes))):  # x is the innermost
            if axis in mapping.grid_stride:
                walk = _walk(builder, index[position], extent[position], axis, 1)
                index[position] = loops.enter_context(walk)
        run(index, GuardAction.TEST)


# ------------------------------------------------------------ tiles


@dataclass(frozen=True)
class _TileAxis:
    """One axis of a tile, as a thread sees it."""

    items: int
    #: Consecutive items of a group.
    group: int
    #: The thread's first item.
    first: ir.Value
    #: Distance from the first item of a group to that of the next one.
    step: ir.Value
    extent: ir.Value

    def index(self, builder: ir.IRBuilder, item: ir.Value) -> ir.Value:
        if self.items == 1:
            return self.first
        group = builder.udiv(item, _i64(self.group))
        within = builder.urem(item, _i64(self.group))
        offset = builder.add(builder.mul(group, self.step, flags=_EXACT), within, flags=_EXACT)
        return builder.add(self.first, offset, flags=_EXACT)


def _tiles(
    builder: ir.IRBuilder,
    extent: Sequence[ir.Value],
    mapping: ElementMapping,
    run: _Run,
    *,
    has_guard: bool,
) -> None:
    axes = "xyz"[: len(extent)]
    start = [_tile_start(builder, axis, n) for axis, n in zip(axes, mapping.items, strict=False)]
    with ExitStack() as loops:
        for position, axis in reversed(list(enumerate(axes))):
            if axis in mapping.grid_stride:
                items = mapping.items[position]
                walk = _walk(builder, start[position], extent[position], axis, items)
                start[position] = loops.enter_context(walk)
        tile = [
            _tile_axis(builder, axis, position, start[position], extent[position], mapping)
            for position, axis in enumerate(axes)
        ]
        last = [each.index(builder, _i64(each.items - 1)) for each in tile]
        is_whole = _all_below(builder, last, extent)
        if has_guard:
            is_whole = builder.and_(is_whole, _all_pass(builder, tile, last, run))
        with builder.if_else(is_whole) as (whole, partly):
            with whole, _items(builder, tile, is_unrolled=True) as index:
                for i, each in zip(index, tile, strict=True):
                    assume(builder, builder.icmp_signed("<", i, each.extent))
                run(index, GuardAction.PASS if has_guard else GuardAction.TEST)
            with (
                partly,
                _items(builder, tile, is_unrolled=False) as index,
                builder.if_then(_all_below(builder, index, extent)),
            ):
                run(index, GuardAction.TEST)


def _all_pass(
    builder: ir.IRBuilder, tile: Sequence[_TileAxis], last: Sequence[ir.Value], run: _Run
) -> ir.Value:
    """Return whether the corners of a thread's items pass the guard, and so all of them do."""
    ends = [
        (each.first, end) if each.items > 1 else (each.first,)
        for each, end in zip(tile, last, strict=True)
    ]
    passes: ir.Value = _i1(1)
    for corner in product(*ends):
        passes = builder.and_(passes, run(corner, GuardAction.ASK))
    return passes


def _tile_start(builder: ir.IRBuilder, axis: str, items: int) -> ir.Value:
    block, width = (read_register(builder, f"{name}.{axis}") for name in ("ctaid", "ntid"))
    return builder.mul(block, _scaled(builder, width, items), flags=_EXACT)


def _tile_axis(
    builder: ir.IRBuilder,
    axis: str,
    position: int,
    start: ir.Value,
    extent: ir.Value,
    mapping: ElementMapping,
) -> _TileAxis:
    items = mapping.items[position]
    group = mapping.vector if position == 0 else 1
    thread = read_register(builder, f"tid.{axis}")
    if mapping.order == "contiguous" or items == group:
        step: ir.Value = _i64(group)
        offset = _scaled(builder, thread, items)
    else:
        step = _scaled(builder, read_register(builder, f"ntid.{axis}"), group)
        offset = _scaled(builder, thread, group)
    first = builder.add(start, offset, flags=_EXACT)
    return _TileAxis(items, group, first, step, extent)


def _scaled(builder: ir.IRBuilder, value: ir.Value, factor: int) -> ir.Value:
    return value if factor == 1 else builder.mul(value, _i64(factor), flags=_EXACT)


@contextmanager
def _items(
    builder: ir.IRBuilder, tile: Sequence[_TileAxis], *, is_unrolled: bool
) -> Iterator[list[ir.Value]]:
    """Repeat the body for each item of a thread; x runs fastest."""
    count = math.prod(each.items for each in tile)
    mark = FULLY_UNROLLED if is_unrolled else NOT_UNROLLED
    with repeat(builder, count, mark) as (rest, *_):
        index = []
        for each in tile:
            index.append(each.index(builder, builder.urem(rest, _i64(each.items))))
            rest = builder.udiv(rest, _i64(each.items))
        yield index


# ------------------------------------------------------------ places and walks


def _grid(builder: ir.IRBuilder, axis: str) -> ir.Value:
    block, width, thread = (
        read_register(builder, f"{register}.{axis}") for register in ("ctaid", "ntid", "tid")
    )
    return builder.add(builder.mul(block, width, flags=_EXACT), thread, flags=_EXACT)


def _grid_size(builder: ir.IRBuilder, axis: str) -> ir.Value:
    count, width = (read_register(builder, f"{register}.{axis}") for register in ("nctaid", "ntid"))
    return builder.mul(count, width, flags=_EXACT)


@contextmanager
def _walk(
    builder: ir.IRBuilder, start: ir.Value, stop: ir.Value, axis: str, items: int
) -> Iterator[ir.Value]:
    """Repeat the body for `start` and every grid's size after it that is below `stop`.

    There is nearly always one iteration. The size of the grid is read at the end of each iteration,
    and LLVM cannot move that read. So it computes nothing ahead for further iterations.
    """
    before = builder.block
    loop = builder.append_basic_block("walk")
    after = builder.append_basic_block("walked")
    builder.branch(loop)
    builder.position_at_end(loop)
    index = builder.phi(_i64, "index")
    index.add_incoming(start, before)
    assume(builder, builder.icmp_signed(">=", index, _i64(0)))
    yield index
    read = ir.FunctionType(_i32, [])
    blocks = builder.asm(read, f"mov.u32 $0, %nctaid.{axis};", "=r", [], side_effect=True)
    width = read_register(builder, f"ntid.{axis}")
    step = builder.mul(builder.zext(blocks, _i64), _scaled(builder, width, items), flags=_EXACT)
    following = builder.add(index, step, flags=_EXACT)
    index.add_incoming(following, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, stop), loop, after)
    builder.position_at_end(after)
