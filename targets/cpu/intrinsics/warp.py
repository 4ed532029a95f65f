"""Exchanges between the lanes of a warp, through memory of the block.

An exchange is performed by two loops over threads. In the first, each thread that takes part
*posts*: it writes what the others need. In the second it *takes* its result. Two arrays of int64
belong to the block. One has a word for the value of each thread. The other has a word for each
warp: its lower half has a bit for each lane that takes part, and its upper half one for each of
them whose predicate is true.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "EXCHANGES",
    "WARP_SIZE",
    "Exchange",
    "Half",
    "Room",
    "Step",
    "WarpBuffer",
    "arrive_thread",
    "exchange",
    "expect_threads",
    "post_nothing",
    "post_value",
]

_I64 = ir.IntType(64)
#: Threads of a warp, on every machine.
WARP_SIZE = 32
#: Words of warps that are stored one by one, and not in a loop.
_MOST_STORES = 8


class Room(NamedTuple):
    """The memory of a block through which its threads exchange values."""

    #: Addresses of int64: values, and a word for each warp.
    values: ir.Value
    lanes: ir.Value
    #: Warps of the block.
    warps: int


#: Writes a step of an exchange: ``(builder, room, thread, call)``.
Step = Callable[[ir.IRBuilder, Room, ir.Value, Call], ir.Value]


@dataclass(frozen=True)
class Exchange:
    """An exchange between the lanes of a warp, or the threads of a block."""

    #: What each thread does that takes part, before and after all have posted.
    post: Step
    take: Step
    #: What is done between the two, once for the block, with the number of its threads in the
    #: place of a thread's. Then a result that all threads share is in the place of the first one.
    combine: Step | None = None
    #: How many int64 a thread's value takes.
    words: int = 1


class WarpBuffer:
    """The memory of an exchange as one thread uses it.

    Values are rounded up to whole warps.
    """

    def __init__(self, builder: ir.IRBuilder, values: Any, lanes: Any, thread: ir.Value) -> None:
        self.builder = builder
        self.thread = thread
        self.lane = builder.and_(thread, _I64(WARP_SIZE - 1))
        self.first = builder.sub(thread, self.lane)
        self.values = values
        self.lanes = builder.gep(lanes, [builder.udiv(thread, _I64(WARP_SIZE))])

    def value_of(self, thread: ir.Value) -> ir.Value:
        """Return the address of a thread's word."""
        return self.builder.gep(self.values, [thread])

    def add(self, bits: ir.Value) -> None:
        """Set bits in the word of the warp."""
        self.builder.store(self.builder.or_(self.builder.load(self.lanes), bits), self.lanes)

    def named(self, mask: ir.Value) -> ir.Value:
        """Return the lanes of a mask that take part, as bits."""
        return self.builder.and_(self.builder.load(self.lanes), self.builder.zext(mask, _I64))


#: Writes one half of an exchange.
Half = Callable[[WarpBuffer, Call], ir.Value]


def exchange(post: Half, take: Half) -> Exchange:
    """Return the exchange of two halves."""
    return Exchange(partial(_write_half, post), partial(_write_half, take))


def _write_half(
    half: Half, builder: ir.IRBuilder, room: Room, thread: ir.Value, call: Call
) -> ir.Value:
    return half(WarpBuffer(builder, room.values, room.lanes, thread), call)


def expect_threads(builder: ir.IRBuilder, room: Room, threads: ir.Value) -> None:
    """Let the first threads of the block take part, and no other one."""
    if isinstance(threads, ir.Constant) and room.warps <= _MOST_STORES:
        for warp in range(room.warps):
            count = min(max(threads.constant - warp * WARP_SIZE, 0), WARP_SIZE)
            builder.store(_I64((1 << count) - 1), builder.gep(room.lanes, [_I64(warp)]))
        return
    with cgutils.for_range(builder, _I64(room.warps)) as loop:
        start = builder.mul(loop.index, _I64(WARP_SIZE))
        count = builder.sub(threads, start)
        count = _smaller(builder, _larger(builder, count, _I64(0)), _I64(WARP_SIZE))
        bits = builder.sub(builder.shl(_I64(1), count), _I64(1))
        builder.store(bits, builder.gep(room.lanes, [loop.index]))


def _smaller(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def arrive_thread(builder: ir.IRBuilder, room: Room, thread: ir.Value) -> None:
    """Let one more thread take part."""
    buffer = WarpBuffer(builder, room.values, room.lanes, thread)
    buffer.add(builder.shl(_I64(1), buffer.lane))


# -- shuffles ---------------------------------------------------------------------------------


def post_value(room: WarpBuffer, call: Call) -> ir.Value:
    """Write this thread's value as the lowest bits of its word; the others are 0."""
    value, builder = call.args[1], call.builder
    bits = ir.IntType(call.signature.args[1].bitwidth)
    word = builder.zext(builder.bitcast(value, bits), _I64)
    builder.store(word, room.value_of(room.thread))
    return call.context.get_dummy_value()


def _source(mode: str, builder: ir.IRBuilder, lane: ir.Value, given: ir.Value) -> ir.Value:
    """Return the lane that another one takes its value of, if there is such a lane."""
    distance = builder.and_(builder.zext(given, _I64), _I64(WARP_SIZE - 1))
    match mode:
        case "up":
            return builder.sub(lane, distance)
        case "down":
            return builder.add(lane, distance)
        case "xor":
            return builder.xor(lane, distance)
        case _:
            return distance


def _take_value(mode: str, room: WarpBuffer, call: Call) -> ir.Value:
    """Return the value of another lane, or the thread's own (PTX ISA, "shfl.sync")."""
    builder = call.builder
    mask, value, given = call.args
    source = _source(mode, builder, room.lane, given)
    # A lane out of range has a number that is out of range without a sign, too.
    is_lane = builder.icmp_unsigned("<", source, _I64(WARP_SIZE))
    lane = builder.select(is_lane, source, room.lane)
    takes_part = builder.trunc(builder.lshr(room.named(mask), lane), ir.IntType(1))
    thread = builder.select(takes_part, builder.add(room.first, lane), room.thread)
    word = builder.load(room.value_of(thread))
    bits = ir.IntType(call.signature.return_type.bitwidth)
    return builder.bitcast(builder.trunc(word, bits), value.type)


# -- votes ------------------------------------------------------------------------------------


def _post_predicate(room: WarpBuffer, call: Call) -> ir.Value:
    builder = call.builder
    is_true = call.context.is_true(builder, call.signature.args[1], call.args[1])
    bit = builder.shl(builder.zext(is_true, _I64), builder.add(room.lane, _I64(WARP_SIZE)))
    room.add(bit)
    return call.context.get_dummy_value()


def _true_lanes(room: WarpBuffer, call: Call) -> ir.Value:
    """Return the lanes of the mask with a true predicate, as bits."""
    true = call.builder.lshr(call.builder.load(room.lanes), _I64(WARP_SIZE))
    return call.builder.and_(true, room.named(call.args[0]))


def _take_ballot(room: WarpBuffer, call: Call) -> ir.Value:
    return call.builder.trunc(_true_lanes(room, call), ir.IntType(32))


def _take_all(room: WarpBuffer, call: Call) -> ir.Value:
    return call.builder.icmp_unsigned("==", _true_lanes(room, call), room.named(call.args[0]))


def _take_any(room: WarpBuffer, call: Call) -> ir.Value:
    return call.builder.icmp_unsigned("!=", _true_lanes(room, call), _I64(0))


def _take_equal(room: WarpBuffer, call: Call) -> ir.Value:
    return call.builder.or_(
        _take_all(room, call),
        call.builder.icmp_unsigned("==", _true_lanes(room, call), _I64(0)),
    )


def post_nothing(room: WarpBuffer, call: Call) -> ir.Value:
    """Take part, and no more."""
    return call.context.get_dummy_value()


def _take_lanes(room: WarpBuffer, call: Call) -> ir.Value:
    return call.builder.trunc(call.builder.load(room.lanes), ir.IntType(32))


EXCHANGES: dict[str, Exchange] = {
    **{
        name: exchange(post_value, partial(_take_value, mode))
        for name, mode in (
            ("shfl_sync", "idx"),
            ("shfl_up_sync", "up"),
            ("shfl_down_sync", "down"),
            ("shfl_xor_sync", "xor"),
        )
    },
    **{
        name: exchange(post, take)
        for name, post, take in (
            ("ballot_sync", _post_predicate, _take_ballot),
            ("all_sync", _post_predicate, _take_all),
            ("any_sync", _post_predicate, _take_any),
            ("eq_sync", _post_predicate, _take_equal),
            ("activemask", post_nothing, _take_lanes),
        )
    },
}
