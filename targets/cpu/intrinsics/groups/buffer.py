"""Write the steps of an operation of a group, in the memory of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.loop_marks import mark_loop
from targets.cpu.intrinsics.warp import WARP_SIZE, Exchange, Room

__all__ = [
    "I1",
    "I32",
    "I64",
    "WIDTHS",
    "GroupBuffer",
    "GroupStep",
    "each_lane",
    "exchange",
    "is_any",
    "last_of",
]

I1, I32, I64 = ir.IntType(1), ir.IntType(32), ir.IntType(64)


WIDTHS = (1, 2, 4, 8, 16)


class GroupBuffer:
    """The memory of a block as an operation uses it.

    `number` is the thread that posts or takes, or how many threads the block has.
    """

    def __init__(
        self, builder: ir.IRBuilder, values: Any, lanes: Any, number: ir.Value, warps: ir.Value
    ) -> None:
        self.builder = builder
        self.number = number
        self.warps = warps
        self._values = values
        self._lanes = lanes

    @property
    def warp(self) -> ir.Value:
        """The thread's warp."""
        return self.builder.udiv(self.number, I64(WARP_SIZE))

    @property
    def lane(self) -> ir.Value:
        """The thread's index in it."""
        return self.builder.urem(self.number, I64(WARP_SIZE))

    def values(self, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value."""
        return self.section(0, kind)

    def section(self, number: int, kind: ir.Type) -> ir.Value:
        """Return the address of the first thread's value, where each has several words.

        Each section has a word for each lane of the block's warps.
        """
        start = self.builder.mul(self.warps, I64(WARP_SIZE * number))
        return self.builder.bitcast(self.builder.gep(self._values, [start]), kind.as_pointer())

    def word(self, warp: ir.Value) -> ir.Value:
        """Return the address of a warp's word."""
        return self.builder.gep(self._lanes, [warp])

    def present(self, warp: ir.Value) -> ir.Value:
        """Return the lanes of a warp that take part, as an i32."""
        return self.builder.trunc(self.builder.load(self.word(warp)), I32)

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


#: Writes a step of an operation.
GroupStep = Callable[[GroupBuffer, Call], ir.Value]


def exchange(
    post: GroupStep, take: GroupStep, combine: GroupStep | None = None, words: int = 2
) -> Exchange:
    """Return the exchange of an operation's steps; two words hold a complex128."""
    return Exchange(
        partial(_write_step, post),
        partial(_write_step, take),
        partial(_write_step, combine) if combine is not None else None,
        words,
    )


def _write_step(
    step: GroupStep, builder: ir.IRBuilder, room: Room, number: ir.Value, call: Call
) -> ir.Value:
    return step(GroupBuffer(builder, room.values, room.lanes, number, I64(room.warps)), call)


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
