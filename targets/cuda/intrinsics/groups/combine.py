"""Combine the values of a warp in a tree, and those of a block"s warps in their order."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.groups import (
    Combination,
    behind_initial,
    combination,
)
from targets.cuda.intrinsics.groups.lanes import (
    WIDTHS,
    Warp,
    first_of,
    is_any,
    last_of,
)
from targets.cuda.intrinsics.groups.threads import Block

__all__ = [
    "block_reduce",
    "block_scan",
    "block_shifted_scan",
    "warp_reduce",
    "warp_scan",
    "warp_shifted_scan",
]

_i32 = ir.IntType(32)


def _reduced(warp: Warp, found: Combination, value: ir.Value) -> ir.Value:
    """Return the values of a warp combined, to each of its lanes.

    Lanes of one half of a part all have its value, so that any that takes part gives it to the
    other half; the two values are combined in the same order in both.
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
    return found.finish(builder, behind_initial(call, found, has_any, result))


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
    return found.finish(builder, behind_initial(call, found, has_any, before))
