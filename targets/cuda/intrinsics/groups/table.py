"""List the operations of warps and blocks, and write them.

Values of a warp are combined in a tree, and those of the warps of a block in their order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.lowering.calls import Call, Emitter, loop_while
from kerneldsl.lowering.groups import (
    WIDTHS,
    Combination,
    Sum,
    after_initial,
    combination,
    is_any,
    sorts_before,
)
from targets.cuda.intrinsics.groups.threads import Block, Warp, Words, first_of, last_of
from targets.cuda.intrinsics.synchronize import barrier, call_nvvm

__all__ = ["EMITTERS"]


class _Ranked(ABC):
    """Participating threads of a group, identified by their ranks: 0 for the first of them."""

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


def _reduced(warp: Warp, found: Combination, value: ir.Value) -> ir.Value:
    """Return the values of a warp combined, to each of its lanes.

    Lanes of one half of a part all have its value, so any that takes part gives it to the other
    half. The two values are combined in the same order in both.
    """
    builder = warp.builder

    def step(width: int, source: ir.Value, mine: ir.Value) -> ir.Value:
        other = warp.read(mine, source)
        is_upper = warp.is_upper(width)
        low, high = builder.select(is_upper, other, mine), builder.select(is_upper, mine, other)
        return found.combine(builder, low, high)

    def whole(value: ir.Value) -> ir.Value:
        for width in WIDTHS:
            value = step(width, builder.xor(warp.lane, _i32(width)), value)
        return value

    def part(value: ir.Value) -> ir.Value:
        for width in WIDTHS:
            start = builder.xor(warp.start_of(width), _i32(width))
            others = warp.half(start, width)
            is_alone = builder.not_(is_any(builder, others))
            source = builder.add(start, first_of(builder, others))
            source = builder.select(is_alone, warp.lane, source)
            value = builder.select(is_alone, value, step(width, source, value))
        return value

    return _whole_or_part(warp, found, value, whole, part)


def _scanned(warp: Warp, found: Combination, value: ir.Value) -> ir.Value:
    """Return each lane's value combined with those of the lanes before it."""
    builder = warp.builder

    def step(width: int, source: ir.Value, is_behind: ir.Value, mine: ir.Value) -> ir.Value:
        combined = found.combine(builder, warp.read(mine, source), mine)
        return builder.select(is_behind, combined, mine)

    def whole(value: ir.Value) -> ir.Value:
        for width in WIDTHS:
            # The last lane of the lower half has all that is before the upper one.
            source = builder.or_(warp.start_of(2 * width), _i32(width - 1))
            value = step(width, source, warp.is_upper(width), value)
        return value

    def part(value: ir.Value) -> ir.Value:
        for width in WIDTHS:
            start = warp.start_of(2 * width)
            lower = warp.half(start, width)
            is_behind = builder.and_(warp.is_upper(width), is_any(builder, lower))
            source = builder.select(
                is_behind, builder.add(start, last_of(builder, lower)), warp.lane
            )
            value = step(width, source, is_behind, value)
        return value

    return _whole_or_part(warp, found, value, whole, part)


def _whole_or_part(
    warp: Warp,
    found: Combination,
    value: ir.Value,
    whole: Callable[[ir.Value], ir.Value],
    part: Callable[[ir.Value], ir.Value],
) -> ir.Value:
    """Combine the values of a warp: more quickly where all of its lanes take part.

    A function of the user's, which may be long, is called in one of the two alone. Its values come
    from a shuffle, this lane's own too: what has just been multiplied would be contracted in it.
    """
    builder = warp.builder
    if found.is_called:
        return part(warp.read(value, warp.lane))
    result = cgutils.alloca_once(builder, found.value_type)
    is_whole = builder.icmp_unsigned("==", warp.present, _i32(0xFFFFFFFF))
    with builder.if_else(is_whole) as (all_lanes, some_lanes):
        with all_lanes:
            builder.store(whole(value), result)
        with some_lanes:
            builder.store(part(value), result)
    return builder.load(result)


def _shifted(warp: Warp, value: ir.Value) -> ir.Value:
    """Return the value of the lane before this one that takes part; nothing to the first."""
    before = warp.before()
    source = warp.builder.select(
        is_any(warp.builder, before), last_of(warp.builder, before), warp.lane
    )
    return warp.read(value, source)


def warp_reduce(name: str, call: Call) -> ir.Value:
    found = combination(name, call)
    return found.finish(call.builder, _reduced(Warp(call.builder), found, call.args[0]))


def warp_scan(name: str, call: Call) -> ir.Value:
    found = combination(name, call)
    return found.finish(call.builder, _scanned(Warp(call.builder), found, call.args[0]))


def warp_shifted_scan(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    warp = Warp(builder)
    result = _shifted(warp, _scanned(warp, found, call.args[0]))
    has_any = is_any(builder, warp.before())
    return found.finish(builder, after_initial(call, found, has_any, result))


def block_reduce(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    block = Block(builder, found.value_type)
    value = _reduced(block.warp, found, call.args[0])
    warps = block.share(value, first_of(builder, block.warp.present))
    return found.finish(builder, block.fold(found, warps))


def block_scan(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    block = Block(builder, found.value_type)
    value = _scanned(block.warp, found, call.args[0])
    before = block.before(block.share(value, last_of(builder, block.warp.present)))
    combined = found.combine(builder, block.fold(found, before), value)
    return found.finish(builder, builder.select(is_any(builder, before), combined, value))


def block_shifted_scan(name: str, call: Call) -> ir.Value:
    builder, found = call.builder, combination(name, call)
    block = Block(builder, found.value_type)
    value = _scanned(block.warp, found, call.args[0])
    warps = block.before(block.share(value, last_of(builder, block.warp.present)))
    of_warps = block.fold(found, warps)
    of_lanes = _shifted(block.warp, value)
    has_warps = is_any(builder, warps)
    has_lanes = is_any(builder, block.warp.before())
    both = found.combine(builder, of_warps, of_lanes)
    with_warps = builder.select(has_lanes, both, of_warps)
    before = builder.select(has_warps, with_warps, of_lanes)
    has_any = builder.or_(has_warps, has_lanes)
    return found.finish(builder, after_initial(call, found, has_any, before))


_i1 = ir.IntType(1)
_i32 = ir.IntType(32)


def _warp_vote(mode: str, call: Call) -> ir.Value:
    builder = call.builder
    predicate = call.context.is_true(builder, call.signature.args[0], call.args[0])
    present = call_nvvm(builder, "activemask", _i32, [])
    if mode == "count":
        return builder.ctpop(call_nvvm(builder, "vote.ballot.sync", _i32, [present, predicate]))
    return call_nvvm(builder, f"vote.{mode}.sync", _i1, [present, predicate])


def _block_vote(mode: str, call: Call) -> ir.Value:
    predicate = call.context.is_true(call.builder, call.signature.args[0], call.args[0])
    result = _i32 if mode == "popc" else _i1
    arguments = [_i32(0), predicate]
    return call_nvvm(call.builder, f"barrier.cta.red.{mode}.aligned.all", result, arguments)


def _warp_broadcast(call: Call) -> ir.Value:
    value, source = call.args
    return Warp(call.builder).read(value, source)


def _warp_exchange(call: Call) -> ir.Value:
    builder, (value, source) = call.builder, call.args
    warp = Warp(builder)
    is_lane = builder.icmp_unsigned("<", source, _i32(WARP_SIZE))
    lane = builder.and_(source, _i32(WARP_SIZE - 1))
    takes_part = builder.trunc(builder.lshr(warp.present, lane), _i1)
    return warp.read(value, builder.select(builder.and_(is_lane, takes_part), lane, warp.lane))


def _block_broadcast(call: Call) -> ir.Value:
    builder, (value, source) = call.builder, call.args
    block = Block(builder, value.type)
    with builder.if_then(builder.icmp_signed("==", block.thread, source)):
        block.give(value)
    barrier(builder)
    return block.value_of(_i32(0))


def _block_exchange(call: Call) -> ir.Value:
    builder, (value, source) = call.builder, call.args
    block = Block(builder, _i32)
    warps = block.share(block.warp.present, first_of(builder, block.warp.present))
    is_thread = builder.icmp_unsigned("<", source, _i32(WARP_SIZE * WARP_SIZE))
    wanted = builder.select(is_thread, source, block.thread)
    warp = builder.lshr(wanted, _i32(5))
    lanes = builder.select(
        builder.trunc(builder.lshr(warps, warp), _i1), block.value_of(warp), _i32(0)
    )
    takes_part = builder.trunc(builder.lshr(lanes, builder.and_(wanted, _i32(WARP_SIZE - 1))), _i1)
    wanted = builder.select(takes_part, wanted, block.thread)
    return Words(builder).exchange(value, block.thread, wanted)


EMITTERS: dict[str, Emitter] = {
    **{
        f"{group}.{operation}": partial(reduce, f"{group}.{operation}")
        for group, reduce in (("warp", warp_reduce), ("block", block_reduce))
        for operation in ("sum", "max", "min", "reduce")
    },
    "warp.broadcast": _warp_broadcast,
    "warp.exchange": _warp_exchange,
    "block.broadcast": _block_broadcast,
    "block.exchange": _block_exchange,
    "warp.sort": partial(sort_keys, "warp"),
    "block.sort": partial(sort_keys, "block"),
    "warp.inclusive_scan": partial(warp_scan, "warp.inclusive_scan"),
    "warp.exclusive_scan": partial(warp_shifted_scan, "warp.exclusive_scan"),
    "block.inclusive_scan": partial(block_scan, "block.inclusive_scan"),
    "block.exclusive_scan": partial(block_shifted_scan, "block.exclusive_scan"),
    **{f"warp.{vote}": partial(_warp_vote, vote) for vote in ("any", "all", "count")},
    **{
        f"block.{vote}": partial(_block_vote, mode)
        for vote, mode in (("any", "or"), ("all", "and"), ("count", "popc"))
    },
}
