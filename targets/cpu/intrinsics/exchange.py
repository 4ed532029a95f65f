"""Exchanges between the threads of a block, and sorts, through memory of the block.

An exchange is performed by two loops over threads. In the first, each thread that takes part
*posts*: it writes what the others need. In the second it *takes* its result. Two arrays of int64
belong to the block. One has a word for the value of each thread. The other has a word for each
warp. Its lower half has a bit for each lane that takes part. Its upper half has one for each of
these with a true predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.calls import Call, loop_while
from kerneldsl.lowering.groups import fenced, sorts_before
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, mark_loop
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "I1",
    "I32",
    "I64",
    "SORT_WORDS",
    "Buffer",
    "Exchange",
    "Room",
    "arrive_thread",
    "each_lane",
    "expect_threads",
    "last_of",
    "post_pairs",
    "post_predicate",
    "post_value",
    "smaller",
    "sort_pairs",
    "take_pair",
]


I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)
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

    def values(self, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value."""
        return self.section(0, kind)

    def value(self, kind: ir.Type, thread: ir.Value) -> ir.Value:
        return self.builder.load(self.builder.gep(self.values(kind), [thread]))

    def set_value(self, value: ir.Value, thread: ir.Value) -> None:
        self.builder.store(value, self.builder.gep(self.values(value.type), [thread]))

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

    def add(self, bits: ir.Value, warp: ir.Value) -> None:
        """Set bits in the word of a warp."""
        place = self.word(warp)
        self.builder.store(self.builder.or_(self.builder.load(place), bits), place)

    def set_bit(self, warp: ir.Value, lane: ir.Value) -> None:
        """Set a lane's bit of those that :meth:`bits` gives; none is set at the beginning."""
        self.add(self.builder.shl(I64(1), self.builder.add(lane, I64(WARP_SIZE))), warp)

    def set_bits(self, warp: ir.Value, lanes: ir.Value) -> None:
        """Set the bits of some lanes, an i32, at once."""
        self.add(self.builder.shl(self.builder.zext(lanes, I64), I64(WARP_SIZE)), warp)

    def bits(self) -> ir.Value:
        """Return a bit for each lane of the thread's warp."""
        word = self.builder.load(self.word(self.warp))
        return self.builder.trunc(self.builder.lshr(word, I64(WARP_SIZE)), I32)


#: Writes a step of an exchange.
Step = Callable[[Buffer, Call], ir.Value | None]


@dataclass(frozen=True)
class Exchange:
    """An exchange between the lanes of a warp, or the threads of a block."""

    #: Steps of each participating thread, before and after all have posted.
    post: Step
    take: Step
    #: Step between the two, once for the block, with the number of its threads in place of a
    #: thread's. A result that all threads share is then in the place of the first one.
    combine: Step | None = None
    #: Number of int64 words of a thread's value; two hold a complex128.
    words: int = 2
    #: Whether threads take in ascending order: the first one writes the result of the others.
    in_order: bool = False


def post_predicate(argument: int, room: Buffer, call: Call) -> None:
    """Set the thread's bit if an argument is true."""
    builder = call.builder
    is_true = call.context.is_true(builder, call.signature.args[argument], call.args[argument])
    bit = builder.shl(builder.zext(is_true, I64), builder.add(room.lane, I64(WARP_SIZE)))
    room.add(bit, room.warp)


def post_value(argument: int, room: Buffer, call: Call) -> None:
    """Write an argument as the thread's value."""
    room.set_value(fenced(call, call.args[argument]), room.number)


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
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def _larger(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)


def arrive_thread(builder: ir.IRBuilder, room: Room, thread: ir.Value) -> None:
    """Let one more thread take part."""
    buffer = Buffer(builder, room, thread)
    buffer.add(builder.shl(I64(1), buffer.lane), buffer.warp)


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


#: Sections of a sort: keys before and after it, and twice keys in the order of the threads that
#: take part. Then these threads, twice in one section, and values before and after.
_KEYS, _ORDERED, _THREADS, _VALUES, _SORTED_VALUES = 0, (1, 2), 3, 4, 6


SORT_WORDS = 8


def post_pairs(room: Buffer, call: Call) -> None:
    builder = room.builder
    for section, value in zip((_KEYS, _VALUES), call.args, strict=True):
        if section == _VALUES and call.signature.args[1] == types.none:
            continue
        builder.store(value, builder.gep(room.section(section, value.type), [room.number]))


def take_pair(room: Buffer, call: Call) -> ir.Value:
    builder = room.builder
    found = [
        builder.load(builder.gep(room.section(section, value.type), [room.number]))
        for section, value in zip((_KEYS, _SORTED_VALUES), call.args, strict=True)
        if section == _KEYS or call.signature.args[1] != types.none
    ]
    if len(found) == 1:
        return found[0]
    return call.context.make_tuple(builder, call.signature.return_type, found)


def sort_pairs(scope: Scope, room: Buffer, call: Call) -> None:
    """Sort what the threads of the block gave, or those of each warp."""
    builder = room.builder
    if scope is Scope.BLOCK:
        _sort_warps(room, call, I64(0), room.warps)
    else:
        with cgutils.for_range(builder, room.warps) as loop:
            _sort_warps(room, call, loop.index, builder.add(loop.index, I64(1)))


def _sort_warps(room: Buffer, call: Call, start: ir.Value, stop: ir.Value) -> None:
    builder = room.builder
    key, value = call.signature.args
    kind = call.context.get_value_type(key)
    capacity = builder.mul(room.warps, I64(WARP_SIZE))
    threads = room.section(_THREADS, I32)
    keys = room.section(_KEYS, kind)
    merge = _MergeSort(
        builder,
        key,
        tuple(room.section(each, kind) for each in _ORDERED),
        (threads, builder.gep(threads, [capacity])),
    )
    with _each_thread(room, start, stop) as thread:
        merge.append(builder.load(builder.gep(keys, [thread])), builder.trunc(thread, I32))
    merge.run()
    rank = cgutils.alloca_once_value(builder, I64(0))
    with _each_thread(room, start, stop) as thread:
        place = builder.load(rank)
        sorted_key, source = merge.read(place)
        builder.store(sorted_key, builder.gep(keys, [thread]))
        if value != types.none:
            element = call.context.get_value_type(value)
            given, gone = (room.section(each, element) for each in (_VALUES, _SORTED_VALUES))
            builder.store(builder.load(builder.gep(given, [source])), builder.gep(gone, [thread]))
        builder.store(builder.add(place, I64(1)), rank)


@contextmanager
def _each_thread(room: Buffer, start: ir.Value, stop: ir.Value) -> Iterator[ir.Value]:
    """Go over the threads of some warps that take part."""
    builder = room.builder
    with cgutils.for_range(builder, stop, start=start) as loop:
        first = builder.mul(loop.index, I64(WARP_SIZE))
        with each_lane(builder, room.present(loop.index), NOT_UNROLLED) as lane:
            yield builder.add(first, builder.zext(lane, I64))


class _MergeSort:
    """A stable sort of keys, each with the thread it came from, between two pieces of memory."""

    def __init__(
        self, builder: ir.IRBuilder, kind: Any, keys: tuple[Any, ...], threads: tuple[Any, ...]
    ) -> None:
        self._builder = builder
        self._kind = kind
        self._count = cgutils.alloca_once(builder, I64)
        builder.store(I64(0), self._count)
        #: Addresses of the keys and the threads, and of the places that the next pass writes.
        self._places = [cgutils.alloca_once_value(builder, each) for each in (*keys, *threads)]

    def append(self, key: ir.Value, thread: ir.Value) -> None:
        builder = self._builder
        count = builder.load(self._count)
        keys, _, threads, _ = map(builder.load, self._places)
        builder.store(key, builder.gep(keys, [count]))
        builder.store(thread, builder.gep(threads, [count]))
        builder.store(builder.add(count, I64(1)), self._count)

    def read(self, place: ir.Value) -> tuple[ir.Value, ir.Value]:
        keys, _, threads, _ = map(self._builder.load, self._places)
        return tuple(self._builder.load(self._builder.gep(x, [place])) for x in (keys, threads))

    def run(self) -> None:
        """Merge sorted runs of 1 key, of 2, of 4, and so on."""
        builder = self._builder
        count = builder.load(self._count)
        width = cgutils.alloca_once_value(builder, I64(1))
        with loop_while(builder, lambda: builder.icmp_signed("<", builder.load(width), count)):
            both = builder.shl(builder.load(width), I64(1))
            start = cgutils.alloca_once_value(builder, I64(0))
            with loop_while(builder, lambda: builder.icmp_signed("<", builder.load(start), count)):
                begin = builder.load(start)
                middle = smaller(builder, builder.add(begin, builder.load(width)), count)
                self._merge(begin, middle, smaller(builder, builder.add(begin, both), count))
                builder.store(builder.add(begin, both), start)
            for one, two in (self._places[:2], self._places[2:]):
                values = builder.load(one), builder.load(two)
                builder.store(values[1], one)
                builder.store(values[0], two)
            builder.store(both, width)
            mark_loop(builder, NOT_UNROLLED)

    def _merge(self, begin: ir.Value, middle: ir.Value, end: ir.Value) -> None:
        builder = self._builder
        keys, to_keys, threads, to_threads = map(builder.load, self._places)
        left, right = (cgutils.alloca_once(builder, I64) for _ in range(2))
        builder.store(begin, left)
        builder.store(middle, right)
        with cgutils.for_range(builder, end, start=begin) as loop:
            one, two = builder.load(left), builder.load(right)
            # A run that is at its end gives a key that is not looked at.
            lower, upper = (builder.load(builder.gep(keys, [each])) for each in (one, two))
            is_upper = sorts_before(builder, self._kind, upper, lower)
            is_upper = builder.and_(is_upper, builder.icmp_signed("<", two, end))
            is_upper = builder.or_(is_upper, builder.icmp_signed(">=", one, middle))
            source = builder.select(is_upper, two, one)
            builder.store(
                builder.select(is_upper, upper, lower), builder.gep(to_keys, [loop.index])
            )
            thread = builder.load(builder.gep(threads, [source]))
            builder.store(thread, builder.gep(to_threads, [loop.index]))
            step = builder.zext(is_upper, I64)
            builder.store(builder.add(two, step), right)
            builder.store(builder.add(one, builder.sub(I64(1), step)), left)
