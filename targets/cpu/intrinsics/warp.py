"""Exchanges between the lanes of a warp, through memory of the block.

An exchange is performed by two loops over threads. In the first, each thread that takes part
*posts*: it writes what the others need. In the second it *takes* its result. Two arrays of int64
belong to the block: a word a thread for values, and a word a warp whose lower half has a bit for
each lane that takes part, and whose upper half one for each of them whose predicate is true.

Where all lanes of a warp take part, which runs alone, shuffles need no words of warps
(:class:`Window`): both halves are copies of 32 values, which LLVM vectorizes. Generated code gives
them ``None`` for those words.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.typing_rules import typing_rule
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.intrinsics.units import WARP_SIZE

__all__ = [
    "EXCHANGES",
    "WINDOW_WARPS",
    "Exchange",
    "Half",
    "Room",
    "Steps",
    "WarpBuffer",
    "arrive",
    "arrive_thread",
    "exchange",
    "expect",
    "expect_threads",
    "post_nothing",
    "post_value",
]

_I64 = ir.IntType(64)
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


class Steps(NamedTuple):
    """What writes the steps of an exchange."""

    post: Step
    take: Step
    #: Once for the block, with the number of its threads in the place of a thread's.
    combine: Step | None = None


@dataclass(frozen=True)
class Exchange:
    """An exchange between the lanes of a warp, or the threads of a block."""

    #: What generated code calls: ``(values, lanes, thread, *arguments)``, with the two arrays of
    #: the block, the thread's index in its block, and the intrinsic's arguments.
    post: Callable[..., Any]
    take: Callable[..., Any]
    #: What it calls once a block between the two, if anything: ``(values, lanes, threads,
    #: posted)`` with how many threads there are, and what `post` returned. With that in place of
    #: the arguments, `take` gives a result that all threads share.
    combine: Callable[..., Any] | None = None
    #: How many int64 a thread's value takes.
    words: int = 1
    #: Gives the same for a function that the intrinsic is given, and that calls then leave out.
    calling: Callable[[Any], Exchange] | None = None
    #: Whether a thread takes its result of others' predicates alone, whatever its own was.
    is_vote: bool = False
    #: Whether its halves need no words of warps where a warp runs alone, and all of it takes part.
    has_window: bool = False
    #: What writes its steps.
    steps: Steps | None = None


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


class Window:
    """The memory of a shuffle as one lane uses it, where all lanes of a warp that runs alone do.

    Values are in the middle of three times as many places, so that a lane may look up to 31
    places up or down, and then take what it finds or not.
    """

    def __init__(self, builder: ir.IRBuilder, values: Any, lane: ir.Value) -> None:
        self.builder = builder
        self.values = values
        self.lane = lane

    def place_of(self, lane: ir.Value, bits: ir.Type) -> ir.Value:
        """Return the address of a lane's value, of a lane from -32 to 63."""
        first = self.builder.bitcast(self.values, bits.as_pointer())
        return self.builder.gep(first, [self.builder.add(lane, _I64(WARP_SIZE))], inbounds=True)


#: Times the values of a warp that a window takes.
WINDOW_WARPS = 3
#: Writes one half of an exchange.
Half = Callable[[WarpBuffer, Call], ir.Value]
#: The same for a whole warp that runs alone.
WindowHalf = Callable[[Window, Call], ir.Value]


def _operation(
    name: str, half: Half, window_half: WindowHalf | None, *, has_result: bool
) -> Callable[..., Any]:
    rule = typing_rule(INTRINSICS[name])

    @intrinsic
    def call(typingctx: Any, values: Any, lanes: Any, thread: Any, *args: Any) -> Any:
        typed = rule(args, {})

        def generate(context: Any, builder: Any, packed: Any, given: Any) -> Any:
            members = tuple(cgutils.unpack_tuple(builder, given[3], len(typed.args)))
            use = Call(context, builder, typed, members, {})
            if window_half is not None and isinstance(lanes, types.NoneType):
                return window_half(Window(builder, given[0], given[2]), use)
            return half(WarpBuffer(builder, given[0], given[1], given[2]), use)

        result = typed.return_type if has_result else types.none
        arguments = (values, lanes, types.int64, types.StarArgTuple(typed.args))
        return result(*arguments), generate

    return call  # type: ignore[no-any-return]


def exchange(
    name: str, post: Half, take: Half, window: tuple[WindowHalf, WindowHalf] | None = None
) -> Exchange:
    """Return the exchange that an intrinsic is, of its two halves; with a window of two more."""
    post_in_window, take_in_window = window or (None, None)
    return Exchange(
        _operation(name, post, post_in_window, has_result=False),
        _operation(name, take, take_in_window, has_result=True),
        has_window=window is not None,
        is_vote=post is _post_predicate,
        steps=Steps(partial(_write_half, post), partial(_write_half, take)),
    )


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


@intrinsic
def expect(typingctx: Any, lanes: Any, threads: Any) -> Any:
    """Let the first `threads` threads of the block take part, and no other one."""

    def generate(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        expect_threads(builder, Room(args[0], args[0], lanes.count), args[1])
        return context.get_dummy_value()

    return types.none(lanes, types.int64), generate


def _smaller(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def arrive_thread(builder: ir.IRBuilder, room: Room, thread: ir.Value) -> None:
    """Let one more thread take part."""
    buffer = WarpBuffer(builder, room.values, room.lanes, thread)
    buffer.add(builder.shl(_I64(1), buffer.lane))


@intrinsic
def arrive(typingctx: Any, lanes: Any, thread: Any) -> Any:
    """Let one more thread take part."""

    def generate(context: Any, builder: Any, typed: Any, args: Any) -> Any:
        arrive_thread(builder, Room(args[0], args[0], lanes.count), args[1])
        return context.get_dummy_value()

    return types.none(lanes, types.int64), generate


# -- shuffles ---------------------------------------------------------------------------------


def post_value(room: WarpBuffer, call: Call) -> ir.Value:
    """Write this thread's value as the lowest bits of its word; the others are 0."""
    value, builder = call.args[1], call.builder
    bits = ir.IntType(call.signature.args[1].bitwidth)
    word = builder.zext(builder.bitcast(value, bits), _I64)
    builder.store(word, room.value_of(room.thread))
    return call.context.get_dummy_value()


def _post_in_window(window: Window, call: Call) -> ir.Value:
    bits = ir.IntType(call.signature.args[1].bitwidth)
    value = call.builder.bitcast(call.args[1], bits)
    call.builder.store(value, window.place_of(window.lane, bits))
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


def _take_in_window(mode: str, window: Window, call: Call) -> ir.Value:
    """Return the value of another lane, which may lie outside of the warp and is left there."""
    builder = call.builder
    mask, value, given = call.args
    bits = ir.IntType(call.signature.return_type.bitwidth)
    source = _source(mode, builder, window.lane, given)
    found = builder.bitcast(builder.load(window.place_of(source, bits)), value.type)
    # Of a mask of all lanes every bit is the same, however it is shifted: LLVM drops the test.
    number = builder.and_(builder.trunc(source, mask.type), mask.type(WARP_SIZE - 1))
    is_named = builder.trunc(builder.ashr(mask, number), ir.IntType(1))
    is_lane = builder.icmp_unsigned("<", source, _I64(WARP_SIZE))
    return builder.select(builder.and_(is_lane, is_named), found, value)


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
        name: exchange(
            *(name, post_value, partial(_take_value, mode)),
            (_post_in_window, partial(_take_in_window, mode)),
        )
        for name, mode in (
            ("shfl_sync", "idx"),
            ("shfl_up_sync", "up"),
            ("shfl_down_sync", "down"),
            ("shfl_xor_sync", "xor"),
        )
    },
    **{
        name: exchange(name, post, take)
        for name, post, take in (
            ("ballot_sync", _post_predicate, _take_ballot),
            ("all_sync", _post_predicate, _take_all),
            ("any_sync", _post_predicate, _take_any),
            ("eq_sync", _post_predicate, _take_equal),
            ("activemask", post_nothing, _take_lanes),
        )
    },
}
