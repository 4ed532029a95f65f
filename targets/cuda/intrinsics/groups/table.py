"""List the operations of warps and blocks, and write those that combine nothing."""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from kerneldsl.lowering.calls import Call, Emitter
from targets.cuda.intrinsics.groups.combine import (
    block_reduce,
    block_scan,
    block_shifted_scan,
    warp_reduce,
    warp_scan,
    warp_shifted_scan,
)
from targets.cuda.intrinsics.groups.lanes import (
    WARP_SIZE,
    Warp,
    first_of,
)
from targets.cuda.intrinsics.groups.sort import sort_keys
from targets.cuda.intrinsics.groups.threads import Block, Words, barrier
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["EMITTERS"]

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
