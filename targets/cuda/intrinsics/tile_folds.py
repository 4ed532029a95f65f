"""Combine the elements of a tile: those of a thread, those of a warp's lanes, those of the warps.

The order is that of :mod:`kerneldsl.lowering.tile_plan`.

References
----------
M. Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA, 2007.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from llvmlite import ir

from kerneldsl.lowering.tile_plan import Layout
from targets.cuda.intrinsics.groups.lanes import WARP_SIZE, WIDTHS, by_words
from targets.cuda.intrinsics.shuffles import shuffle

__all__ = ["combine_lanes", "combine_own"]

#: Combines two values.
Combine: TypeAlias = Callable[[ir.Value, ir.Value], ir.Value]
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)
_ALL_LANES = 0xFFFFFFFF


def combine_own(
    builder: ir.IRBuilder,
    layout: Layout,
    thread: ir.Value,
    read: Callable[[int], ir.Value],
    nothing: ir.Value,
    combine: Combine,
) -> ir.Value:
    """Combine the elements of a thread, which `read` returns by slot."""
    totals: list[ir.Value] = []
    for slot in range(layout.rounds * layout.group):
        value = read(slot)
        if not layout.is_even and slot >= (layout.rounds - 1) * layout.group:
            value = builder.select(_is_there(builder, layout, thread, slot), value, nothing)
        if slot < layout.group:
            totals.append(value)
        else:
            place = slot % layout.group
            totals[place] = combine(totals[place], value)
    while len(totals) > 1:
        totals = [combine(one, two) for one, two in zip(totals[::2], totals[1::2], strict=True)]
    return totals[0]


def _is_there(builder: ir.IRBuilder, layout: Layout, thread: ir.Value, slot: int) -> ir.Value:
    """Return whether an element belongs to a slot of the last round."""
    turn, place = divmod(slot, layout.group)
    group = builder.add(thread, _i64(turn * layout.threads))
    number = builder.add(builder.mul(group, _i64(layout.group)), _i64(place))
    return builder.icmp_unsigned("<", number, _i64(layout.count))


def combine_lanes(
    builder: ir.IRBuilder, threads: int, thread: ir.Value, value: ir.Value, combine: Combine
) -> ir.Value:
    """Combine the values of the lanes of a warp; the first lane has the result."""
    rest = threads % WARP_SIZE
    mask: ir.Value = _i32((1 << threads) - 1 if threads < WARP_SIZE else _ALL_LANES)
    lane = builder.trunc(builder.and_(thread, _i64(WARP_SIZE - 1)), _i32)
    count: ir.Value = _i32(min(threads, WARP_SIZE))
    if rest and threads > WARP_SIZE:
        is_last = builder.icmp_unsigned(">=", thread, _i64(threads - rest))
        mask = builder.select(is_last, _i32((1 << rest) - 1), mask)
        count = builder.select(is_last, _i32(rest), count)
    for width in WIDTHS:
        if width >= threads:
            break
        met = combine(value, _from_behind(builder, value, mask, width))
        if rest:
            has_other = builder.icmp_unsigned("<", builder.add(lane, _i32(width)), count)
            met = builder.select(has_other, met, value)
        value = met
    return value


def _from_behind(builder: ir.IRBuilder, value: ir.Value, mask: ir.Value, width: int) -> ir.Value:
    kind = value.type
    if isinstance(kind, ir.HalfType):
        value = builder.bitcast(value, ir.IntType(16))
    found = by_words(builder, value, lambda word: shuffle(builder, "down", mask, word, _i32(width)))
    return builder.bitcast(found, kind) if isinstance(kind, ir.HalfType) else found
