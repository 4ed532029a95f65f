"""Sort the keys of a group: once for the block, by merging."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.ir.ranges import WARP_SIZE
from kerneldsl.language.intrinsics.intrinsic import Scope
from kerneldsl.lowering.calls import Call, loop_while
from kerneldsl.lowering.groups import sorts_before
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, mark_loop
from targets.cpu.intrinsics.exchange import I32, I64, Buffer, each_lane, smaller

__all__ = ["SORT_WORDS", "post_pairs", "sort_pairs", "take_pair"]

#: Sections of a sort: keys before and after it, and twice keys in the order of the threads that
#: take part. Then these threads, twice in one section, and values before and after.
_KEYS, _ORDERED, _THREADS, _VALUES, _SORTED_VALUES = 0, (1, 2), 3, 4, 6


SORT_WORDS = 8


def post_pairs(room: Buffer, call: Call) -> ir.Value:
    builder = room.builder
    for section, value in zip((_KEYS, _VALUES), call.args, strict=True):
        if section == _VALUES and call.signature.args[1] == types.none:
            continue
        builder.store(value, builder.gep(room.section(section, value.type), [room.number]))
    return call.context.get_dummy_value()


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


def sort_pairs(scope: Scope, room: Buffer, call: Call) -> ir.Value:
    """Sort what the threads of the block gave, or those of each warp."""
    builder = room.builder
    if scope is Scope.BLOCK:
        _sort_warps(room, call, I64(0), room.warps)
    else:
        with cgutils.for_range(builder, room.warps) as loop:
            _sort_warps(room, call, loop.index, builder.add(loop.index, I64(1)))
    return call.context.get_dummy_value()


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
        #: Where the keys and the threads are, and where the next pass writes them.
        self._places = [cgutils.alloca_once_value(builder, each) for each in (*keys, *threads)]

    def append(self, key: ir.Value, thread: ir.Value) -> None:
        """Add a key at the end."""
        builder = self._builder
        count = builder.load(self._count)
        keys, _, threads, _ = map(builder.load, self._places)
        builder.store(key, builder.gep(keys, [count]))
        builder.store(thread, builder.gep(threads, [count]))
        builder.store(builder.add(count, I64(1)), self._count)

    def read(self, place: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Return a key and its thread."""
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
