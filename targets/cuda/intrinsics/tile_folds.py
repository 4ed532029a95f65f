"""Combine the elements of a tile: those of a thread, those of a warp's lanes, those of the warps.

The order is that of :mod:`kerneldsl.lowering.tile_plan`.

References
----------
M. Harris, "Optimizing Parallel Reduction in CUDA", NVIDIA, 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.numba_internals.arrays import make_array
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.tile_folds import COMBINATIONS
from kerneldsl.lowering.tile_plan import Layout, TilePlan
from targets.cuda.intrinsics.groups.lanes import WARP_SIZE, WIDTHS, by_words
from targets.cuda.intrinsics.shuffles import shuffle

__all__ = ["combine_lanes", "combine_own", "fold_operations"]

#: Combines two values.
Combine: TypeAlias = Callable[[ir.Value, ir.Value], ir.Value]
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)
_ALL_LANES = 0xFFFFFFFF


def _combine(call: Call, one: ir.Value, two: ir.Value) -> ir.Value:
    kind = call.signature.return_type
    return COMBINATIONS[call.static["fold"]](call.context, call.builder, kind, one, two)


def _part_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    kind = args[0].dtype
    return kind(args[0], kind, types.int64)


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


def _part(call: Call) -> ir.Value:
    """Combine the elements of a thread in ``(registers, nothing, thread)``."""
    _, nothing, thread = call.args
    layout = call.static["layout"]
    return combine_own(
        call.builder, layout, thread, _reader(call), nothing, partial(_combine, call)
    )


def _reader(call: Call) -> Callable[[int], ir.Value]:
    """Return what reads an element of the first argument, an array, by its index."""
    builder, context, kind = call.builder, call.context, call.signature.args[0]
    data = make_array(kind)(context, builder, call.args[0]).data
    model = context.data_model_manager[kind.dtype]

    def read(index: int) -> ir.Value:
        stored = builder.load(builder.gep(data, [_i64(index)], inbounds=True))
        return model.from_data(builder, stored)

    return read


def _is_there(builder: ir.IRBuilder, layout: Layout, thread: ir.Value, slot: int) -> ir.Value:
    """Return whether an element belongs to a slot of the last round."""
    turn, place = divmod(slot, layout.group)
    group = builder.add(thread, _i64(turn * layout.threads))
    number = builder.add(builder.mul(group, _i64(layout.group)), _i64(place))
    return builder.icmp_unsigned("<", number, _i64(layout.count))


def _met_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    kind = types.unliteral(args[0])
    return kind(kind, types.int64)


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


def _met(call: Call) -> ir.Value:
    """Combine ``(value, thread)`` of the lanes of a warp."""
    value, thread = call.args
    threads = call.static["threads"]
    return combine_lanes(call.builder, threads, thread, value, partial(_combine, call))


def _from_behind(builder: ir.IRBuilder, value: ir.Value, mask: ir.Value, width: int) -> ir.Value:
    kind = value.type
    if isinstance(kind, ir.HalfType):
        value = builder.bitcast(value, ir.IntType(16))
    found = by_words(builder, value, lambda word: shuffle(builder, "down", mask, word, _i32(width)))
    return builder.bitcast(found, kind) if isinstance(kind, ir.HalfType) else found


def _rest_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return args[0].dtype(args[0])


def _rest(call: Call) -> ir.Value:
    """Combine the values of warps, which lie in shared memory, one after the other."""
    read = _reader(call)
    total = read(0)
    for warp in range(1, -(-call.static["threads"] // WARP_SIZE)):
        total = _combine(call, total, read(warp))
    return total


def fold_operations(plan: TilePlan) -> dict[str, BoundIntrinsic]:
    """Return what statements of reductions call, by name."""
    found = {}
    for fold, count in plan.folded:
        static = {"fold": fold, "threads": plan.threads}
        part = {**static, "layout": Layout(count, plan.threads)}
        found[f"kd_part_{fold}_{count}"] = BoundIntrinsic("tile.part", _part_rule, _part, part)
        found[f"kd_met_{fold}"] = BoundIntrinsic("tile.met", _met_rule, _met, static)
        found[f"kd_rest_{fold}"] = BoundIntrinsic("tile.rest", _rest_rule, _rest, static)
    return found
