"""Exchanges between the threads of a block, through memory of the block.

An exchange is performed by two loops over threads. In the first, each thread that takes part
*posts*: it writes what the others need. In the second it *takes* its result. Two arrays of int64
belong to the block. One has a word for the value of each thread. The other has a word for each
warp. Its lower half has a bit for each lane that takes part. Its upper half has one for each of
these with a true predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.loop_marks import mark_loop
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "I1",
    "I32",
    "I64",
    "WIDTHS",
    "Buffer",
    "Exchange",
    "Room",
    "Step",
    "arrive_thread",
    "each_lane",
    "expect_threads",
    "is_any",
    "last_of",
    "post_predicate",
    "smaller",
]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
#: Threads of a warp, on every machine.
#: Lanes of a half of a part of a warp, in the levels of a tree.
WIDTHS = (1, 2, 4, 8, 16)
#: Words of warps that are stored one by one, and not in a loop.
_MOST_STORES = 8


class Room(NamedTuple):
    """The memory of a block through which its threads exchange values."""

    #: Addresses of int64: values, and a word for each warp.
    values: ir.Value
    lanes: ir.Value
    #: Warps of the block.
    warps: int


class Buffer:
    """The memory of an exchange as one step uses it.

    `number` is the thread that posts or takes, or how many threads the block has. Values are
    rounded up to whole warps.
    """

    def __init__(self, builder: ir.IRBuilder, room: Room, number: ir.Value) -> None:
        self.builder = builder
        self.number = number
        self.warps = I64(room.warps)
        self._room = room

    @property
    def warp(self) -> ir.Value:
        return self.builder.udiv(self.number, I64(WARP_SIZE))

    @property
    def lane(self) -> ir.Value:
        """The thread's index in it."""
        return self.builder.and_(self.number, I64(WARP_SIZE - 1))

    @property
    def first(self) -> ir.Value:
        """The first thread of the thread's warp."""
        return self.builder.sub(self.number, self.lane)

    def value_of(self, thread: ir.Value) -> ir.Value:
        """Return the address of a thread's word."""
        return self.builder.gep(self._room.values, [thread])

    def values(self, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value."""
        return self.section(0, kind)

    def section(self, number: int, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value, where each has several words.

        Each section has a word for each lane of the block's warps.
        """
        start = self.builder.mul(self.warps, I64(WARP_SIZE * number))
        return self.builder.bitcast(self.builder.gep(self._room.values, [start]), kind.as_pointer())

    def word(self, warp: ir.Value) -> ir.Value:
        return self.builder.gep(self._room.lanes, [warp])

    def present(self, warp: ir.Value) -> ir.Value:
        """Return the lanes of a warp that take part, as an i32."""
        return self.builder.trunc(self.builder.load(self.word(warp)), I32)

    def named(self, mask: ir.Value) -> ir.Value:
        """Return the lanes of a mask that take part, as bits of the thread's warp."""
        word = self.builder.load(self.word(self.warp))
        return self.builder.and_(word, self.builder.zext(mask, I64))

    def add(self, bits: ir.Value) -> None:
        """Set bits in the word of the thread's warp."""
        place = self.word(self.warp)
        self.builder.store(self.builder.or_(self.builder.load(place), bits), place)

    def set_bit(self, warp: ir.Value, lane: ir.Value) -> None:
        """Set a lane's bit of those that :meth:`bits` gives; none is set at the beginning."""
        builder, place = self.builder, self.word(warp)
        bit = builder.shl(I64(1), builder.add(lane, I64(WARP_SIZE)))
        builder.store(builder.or_(builder.load(place), bit), place)

    def set_bits(self, warp: ir.Value, lanes: ir.Value) -> None:
        """Set the bits of some lanes, an i32, at once."""
        builder, place = self.builder, self.word(warp)
        bits = builder.shl(builder.zext(lanes, I64), I64(WARP_SIZE))
        builder.store(builder.or_(builder.load(place), bits), place)

    def bits(self) -> ir.Value:
        """Return a bit for each lane of the thread's warp."""
        word = self.builder.load(self.word(self.warp))
        return self.builder.trunc(self.builder.lshr(word, I64(WARP_SIZE)), I32)


#: Writes a step of an exchange.
Step = Callable[[Buffer, Call], ir.Value]


@dataclass(frozen=True)
class Exchange:
    """An exchange between the lanes of a warp, or the threads of a block."""

    #: What each thread does that takes part, before and after all have posted.
    post: Step
    take: Step
    #: What is done between the two, once for the block, with the number of its threads in the
    #: place of a thread's. Then a result that all threads share is in the place of the first one.
    combine: Step | None = None
    #: How many int64 a thread's value takes; two hold a complex128.
    words: int = 2


def post_predicate(argument: int, room: Buffer, call: Call) -> ir.Value:
    """Set the thread's bit if an argument is true."""
    builder = call.builder
    is_true = call.context.is_true(builder, call.signature.args[argument], call.args[argument])
    bit = builder.shl(builder.zext(is_true, I64), builder.add(room.lane, I64(WARP_SIZE)))
    room.add(bit)
    return call.context.get_dummy_value()


def expect_threads(builder: ir.IRBuilder, room: Room, threads: ir.Value) -> None:
    """Let the first threads of the block take part, and no other one."""
    if isinstance(threads, ir.Constant) and room.warps <= _MOST_STORES:
        for warp in range(room.warps):
            count = min(max(threads.constant - warp * WARP_SIZE, 0), WARP_SIZE)
            builder.store(I64((1 << count) - 1), builder.gep(room.lanes, [I64(warp)]))
        return
    with cgutils.for_range(builder, I64(room.warps)) as loop:
        start = builder.mul(loop.index, I64(WARP_SIZE))
        count = builder.sub(threads, start)
        count = smaller(builder, _larger(builder, count, I64(0)), I64(WARP_SIZE))
        bits = builder.sub(builder.shl(I64(1), count), I64(1))
        builder.store(bits, builder.gep(room.lanes, [loop.index]))


def smaller(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the smaller of two signed integers."""
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def arrive_thread(builder: ir.IRBuilder, room: Room, thread: ir.Value) -> None:
    """Let one more thread take part."""
    buffer = Buffer(builder, room, thread)
    buffer.add(builder.shl(I64(1), buffer.lane))


def is_any(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    return builder.icmp_unsigned("!=", lanes, lanes.type(0))


def last_of(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return the last of some lanes; there is at least one."""
    return builder.sub(I32(WARP_SIZE - 1), builder.ctlz(lanes, I1(1)))


@contextmanager
def each_lane(builder: ir.IRBuilder, present: ir.Value, *wishes: str) -> Iterator[ir.Value]:
    """Go over the lanes that are there; `wishes` are marks of the loop."""
    with cgutils.for_range(builder, I32(WARP_SIZE)) as loop:
        bit = builder.lshr(present, loop.index)
        with builder.if_then(builder.trunc(bit, I1)):
            yield loop.index
        if wishes:
            mark_loop(builder, *wishes)
