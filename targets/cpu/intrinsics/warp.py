"""Exchanges between the lanes of a warp: shuffles, votes, matches and reductions.

The lowest lane that takes part in a reduction computes the result. The others find it in that
lane's word, since threads take their results in the order of their lanes.

References
----------
CUDA C++ Programming Guide, sections "Warp Vote Functions", "Warp Match Functions" and "Warp Reduce
Functions"; PTX ISA, section "shfl.sync".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.groups import combination_of
from targets.cpu.intrinsics.exchange import (
    I1,
    I32,
    I64,
    Buffer,
    Exchange,
    post_predicate,
    post_value,
)

__all__ = ["EXCHANGES"]

# -- shuffles ---------------------------------------------------------------------------------


def _source(mode: str, builder: ir.IRBuilder, lane: ir.Value, given: ir.Value) -> ir.Value:
    """Return the lane that another one takes its value of, if there is such a lane."""
    distance = builder.and_(builder.zext(given, I64), I64(WARP_SIZE - 1))
    match mode:
        case "up":
            return builder.sub(lane, distance)
        case "down":
            return builder.add(lane, distance)
        case "xor":
            return builder.xor(lane, distance)
        case _:
            return distance


def _take_value(mode: str, room: Buffer, call: Call) -> ir.Value:
    """Return the value of another lane, or the thread's own (PTX ISA, "shfl.sync")."""
    builder = call.builder
    mask, value, given = call.args
    source = _source(mode, builder, room.lane, given)
    # A lane out of range has a number that is out of range without a sign, too.
    is_lane = builder.icmp_unsigned("<", source, I64(WARP_SIZE))
    lane = builder.select(is_lane, source, room.lane)
    takes_part = builder.trunc(builder.lshr(room.named(mask), lane), I1)
    thread = builder.select(takes_part, builder.add(room.first, lane), room.number)
    return room.value(value.type, thread)


# -- votes ------------------------------------------------------------------------------------


def _true_lanes(room: Buffer, call: Call) -> ir.Value:
    """Return the lanes of the mask with a true predicate, as bits."""
    true = call.builder.lshr(call.builder.load(room.word(room.warp)), I64(WARP_SIZE))
    return call.builder.and_(true, room.named(call.args[0]))


def _take_ballot(room: Buffer, call: Call) -> ir.Value:
    return call.builder.trunc(_true_lanes(room, call), I32)


def _take_all(room: Buffer, call: Call) -> ir.Value:
    return call.builder.icmp_unsigned("==", _true_lanes(room, call), room.named(call.args[0]))


def _take_any(room: Buffer, call: Call) -> ir.Value:
    return call.builder.icmp_unsigned("!=", _true_lanes(room, call), I64(0))


def _take_equal(room: Buffer, call: Call) -> ir.Value:
    return call.builder.or_(
        _take_all(room, call),
        call.builder.icmp_unsigned("==", _true_lanes(room, call), I64(0)),
    )


def _post_nothing(room: Buffer, call: Call) -> None:
    """Take part, and no more."""


def _take_lanes(room: Buffer, call: Call) -> ir.Value:
    return call.builder.trunc(call.builder.load(room.word(room.warp)), I32)


# -- matches ----------------------------------------------------------------------------------


def _same_lanes(room: Buffer, call: Call) -> ir.Value:
    """Return the lanes of the mask with this thread's word, as bits."""
    builder = call.builder
    kind = ir.IntType(8 * call.context.get_abi_sizeof(call.args[1].type))
    mine = room.value(kind, room.number)
    found = cgutils.alloca_once_value(builder, I64(0))
    builder.store(I64(0), found)
    with cgutils.for_range(builder, I64(WARP_SIZE)) as loop:
        other = room.value(kind, builder.add(room.first, loop.index))
        is_same = builder.zext(builder.icmp_unsigned("==", other, mine), I64)
        bits = builder.or_(builder.load(found), builder.shl(is_same, loop.index))
        builder.store(bits, found)
    return builder.and_(builder.load(found), room.named(call.args[0]))


def _take_match_any(room: Buffer, call: Call) -> ir.Value:
    return call.builder.trunc(_same_lanes(room, call), I32)


def _take_match_all(room: Buffer, call: Call) -> ir.Value:
    builder, named = call.builder, room.named(call.args[0])
    is_same = builder.icmp_unsigned("==", _same_lanes(room, call), named)
    lanes = builder.select(is_same, builder.trunc(named, I32), I32(0))
    truth = call.context.get_value_type(types.boolean)
    is_true = builder.zext(is_same, truth) if truth != I1 else is_same
    return call.context.make_tuple(builder, call.signature.return_type, (lanes, is_true))


# -- reductions -------------------------------------------------------------------------------

_BITWISE = ("and_", "or_", "xor")
#: Operations that combine a value with itself to something else.
_NOT_IDEMPOTENT = ("sum", "xor")


def _take_reduction(name: str, room: Buffer, call: Call) -> ir.Value:
    builder, kind = call.builder, call.signature.return_type
    stored = call.args[1].type
    named = room.named(call.args[0])
    leader = builder.cttz(named, I1(0))
    first = builder.add(room.first, builder.and_(leader, I64(WARP_SIZE - 1)))
    with builder.if_then(builder.icmp_unsigned("==", leader, room.lane)):
        # Neutral element, in place of the values of lanes that do not participate.
        nothing = room.value(stored, room.number)
        if name in _NOT_IDEMPOTENT:
            nothing = combination_of("sum", call.context, kind).neutral
        combine = partial(combination_of(name, call.context, kind).combine, builder)
        if name in _BITWISE:
            combine = getattr(builder, name)
        nodes = []
        for lane in range(WARP_SIZE):
            given = room.value(stored, builder.add(room.first, I64(lane)))
            takes_part = builder.trunc(builder.lshr(named, I64(lane)), I1)
            nodes.append(builder.select(takes_part, given, nothing))
        while len(nodes) > 1:
            half = len(nodes) // 2
            pairs = zip(nodes[:half], nodes[half:], strict=True)
            nodes = [combine(*pair) for pair in pairs]
        room.set_value(nodes[0], first)
    return room.value(stored, first)


_POST_VALUE = partial(post_value, 1)
_POST_PREDICATE = partial(post_predicate, 1)
EXCHANGES: dict[str, Exchange] = {
    **{
        name: Exchange(_POST_VALUE, partial(_take_value, mode), words=1)
        for name, mode in (
            ("shfl_sync", "idx"),
            ("shfl_up_sync", "up"),
            ("shfl_down_sync", "down"),
            ("shfl_xor_sync", "xor"),
        )
    },
    **{
        name: Exchange(post, take, words=1)
        for name, post, take in (
            ("ballot_sync", _POST_PREDICATE, _take_ballot),
            ("all_sync", _POST_PREDICATE, _take_all),
            ("any_sync", _POST_PREDICATE, _take_any),
            ("eq_sync", _POST_PREDICATE, _take_equal),
            ("activemask", _post_nothing, _take_lanes),
        )
    },
    "match_any_sync": Exchange(_POST_VALUE, _take_match_any, words=1),
    "match_all_sync": Exchange(_POST_VALUE, _take_match_all, words=1),
    **{
        f"reduce_{word}_sync": Exchange(
            _POST_VALUE, partial(_take_reduction, name), words=1, in_order=True
        )
        for word, name in (
            *(("add", "sum"), ("min", "min"), ("max", "max")),
            *(("and", "and_"), ("or", "or_"), ("xor", "xor")),
        )
    },
}
