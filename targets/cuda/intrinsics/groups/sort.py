"""Sort the keys of a group by a network."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, loop_while
from kerneldsl.lowering.groups import Sum, sorts_before
from targets.cuda.intrinsics.groups.lanes import WIDTHS, Warp, first_of, is_any
from targets.cuda.intrinsics.groups.threads import Block, Words

__all__ = ["sort_keys"]

_i32 = ir.IntType(32)


class _Ranked(ABC):
    """Those of a group that take part, identified by their ranks: 0 for the first of them."""

    def __init__(self, builder: ir.IRBuilder, rank: ir.Value, count: ir.Value) -> None:
        self.builder = builder
        self.rank = rank
        self.count = count

    @abstractmethod
    def read(self, value: ir.Value, rank: ir.Value) -> ir.Value:
        """Return the value of the thread with some rank."""


class _RankedWarp(_Ranked):
    def __init__(self, builder: ir.IRBuilder) -> None:
        self._warp = Warp(builder)
        rank = builder.ctpop(self._warp.before())
        super().__init__(builder, rank, builder.ctpop(self._warp.present))

    def read(self, value: ir.Value, rank: ir.Value) -> ir.Value:
        return self._warp.read(value, _nth(self.builder, self._warp.present, rank))


class _RankedBlock(_Ranked):
    def __init__(self, builder: ir.IRBuilder, context: Any) -> None:
        block = Block(builder, _i32)
        counts = Sum(context, types.int32)
        own = builder.ctpop(block.warp.present)
        warps = block.share(own, first_of(builder, block.warp.present))
        before = block.before(warps)
        ahead = block.fold(counts, before)
        ahead = builder.select(is_any(builder, before), ahead, _i32(0))
        rank = builder.add(ahead, builder.ctpop(block.warp.before()))
        super().__init__(builder, rank, block.fold(counts, warps))
        self._words = Words(builder)

    def read(self, value: ir.Value, rank: ir.Value) -> ir.Value:
        return self._words.exchange(value, self.rank, rank)


def _nth(builder: ir.IRBuilder, lanes: ir.Value, rank: ir.Value) -> ir.Value:
    """Return the lane before which there are `rank` of some lanes, by halving."""
    lane: ir.Value = _i32(0)
    for width in reversed(WIDTHS):
        low = builder.and_(builder.lshr(lanes, lane), _i32((1 << width) - 1))
        count = builder.ctpop(low)
        is_above = builder.icmp_unsigned(">=", rank, count)
        rank = builder.select(is_above, builder.sub(rank, count), rank)
        lane = builder.select(is_above, builder.add(lane, _i32(width)), lane)
    return lane


def sort_keys(group: str, call: Call) -> ir.Value:
    """Sort by a bitonic network whose comparisons all have the smaller key first.

    So nobody has to stand for who takes no part. A key is compared with the rank it began at, too,
    which makes the sort stable.
    """
    builder, (key, value) = call.builder, call.args
    kind, value_kind = call.signature.args
    ranked = _RankedWarp(builder) if group == "warp" else _RankedBlock(builder, call.context)
    keys = cgutils.alloca_once_value(builder, key)
    origins = cgutils.alloca_once_value(builder, ranked.rank)

    def compare(distance: ir.Value) -> None:
        partner = builder.xor(ranked.rank, distance)
        has_partner = builder.icmp_unsigned("<", partner, ranked.count)
        partner = builder.select(has_partner, partner, ranked.rank)
        mine, origin = builder.load(keys), builder.load(origins)
        other = ranked.read(mine, partner)
        other_origin = ranked.read(origin, partner)
        is_same = builder.not_(sorts_before(builder, kind, mine, other))
        is_before = builder.and_(is_same, builder.icmp_unsigned("<", other_origin, origin))
        is_before = builder.or_(sorts_before(builder, kind, other, mine), is_before)
        is_lower = builder.icmp_unsigned("<", ranked.rank, partner)
        is_taken = builder.icmp_unsigned("==", is_before, is_lower)
        is_taken = builder.and_(is_taken, has_partner)
        builder.store(builder.select(is_taken, other, mine), keys)
        builder.store(builder.select(is_taken, other_origin, origin), origins)

    size = cgutils.alloca_once_value(builder, _i32(1))
    with loop_while(builder, lambda: builder.icmp_unsigned("<", builder.load(size), ranked.count)):
        merged = builder.load(size)
        # Two sorted runs of this size, the second read backwards, become one run.
        compare(builder.sub(builder.shl(merged, _i32(1)), _i32(1)))
        distance = cgutils.alloca_once_value(builder, builder.lshr(merged, _i32(1)))
        with loop_while(builder, lambda: is_any(builder, builder.load(distance))):
            compare(builder.load(distance))
            builder.store(builder.lshr(builder.load(distance), _i32(1)), distance)
        builder.store(builder.shl(merged, _i32(1)), size)
    result = builder.load(keys)
    if value_kind == types.none:
        return result
    came_with = ranked.read(value, builder.load(origins))
    return call.context.make_tuple(builder, call.signature.return_type, [result, came_with])
