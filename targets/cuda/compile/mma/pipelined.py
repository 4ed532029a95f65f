"""Loops that load factors of products some iterations early.

Before the loop, a thread starts the copies of the first iterations. In each iteration it waits for
the copies of that iteration. Then it starts those of a later one, into memory that the last
iteration has read.

References
----------
PTX ISA, sections "cp.async.commit_group" and "cp.async.wait_group".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, TypeAlias

from llvmlite import ir

from kerneldsl.ir.operations import Effect, Operation
from targets.cuda.compile.mma.copies import always_in_groups, copy_factor, copy_groups, is_inside
from targets.cuda.intrinsics.by_architecture import call_by_architecture

if TYPE_CHECKING:
    from targets.cuda.compile.mma.operands import Operand
    from targets.cuda.compile.mma.rings import Ring
    from targets.cuda.compile.tiles.writer import TileWriter

__all__ = ["write_pipelined"]

_VOID, _I32 = ir.VoidType(), ir.IntType(32)
_Handler: TypeAlias = Callable[[Operation], None]


def write_pipelined(writer: TileWriter, write: _Handler, operation: Operation, ring: Ring) -> None:
    """Write a loop with early loads; `write` writes it without."""
    _Pipeline(writer, operation, ring).write(write)


def _call(write: Callable[[], None]) -> Operation:
    """Return an operation that writes code."""
    return Operation("tile.turn", [], (), {"write": write}, None, Effect.WAIT)


class _Pipeline:
    def __init__(self, writer: TileWriter, loop: Operation, ring: Ring) -> None:
        self._writer, self._loop, self._ring = writer, loop, ring
        self._builder = writer.code.builder
        self._start, self._stop, self._step = map(writer.emitter.get, loop.operands[:3])
        self._is_in_groups = False
        #: Number of the room that the current iteration reads.
        self._slot = writer.code.variable(_I32(ring.stages - 1))

    def write(self, write: _Handler) -> None:
        """Write the loop: with one test for all copies of an iteration, if these are of groups."""
        emitter, builder, loop = self._writer.emitter, self._builder, self._loop
        in_groups = self._always_in_groups()
        if in_groups is None:
            self._loop_with(write)
            return
        ends = []
        with builder.if_else(in_groups) as (yes, no):
            for branch, is_in_groups in ((yes, True), (no, False)):
                with branch:
                    self._is_in_groups = is_in_groups
                    self._loop_with(write)
                    results = [emitter.get(value) for value in loop.results]
                    ends.append((builder.block, results))
        emitter.join(loop, ends)

    def _always_in_groups(self) -> ir.Value | None:
        """Say whether all iterations copy in groups; ``None`` if it is not known before."""
        layouts, early = self._writer.layouts, self._ring.early
        assert layouts is not None
        if any(each.effects() for each in early.operations if each not in early.loads):
            return None
        found: ir.Value | None = None
        for load in early.loads:
            factor = layouts.copied(load)
            assert factor is not None
            test = always_in_groups(self._writer, load, factor, self._loop)
            if test is None:
                return None
            found = test if found is None else self._builder.and_(found, test)
        return found

    def _loop_with(self, write: _Handler) -> None:
        code, builder, stages = self._writer.code, self._builder, self._ring.stages
        # A loop that was left by break has not waited for its copies.
        call_by_architecture(builder, "matrix_wait_0", _VOID, [])
        code.wait()  # all have written what the loads read, and read what is overwritten
        self._slot.set(_I32(stages - 1))
        for number in range(stages - 1):
            ahead = builder.mul(self._step, self._step.type(number))
            self._load(builder.add(self._start, ahead), _I32(number))
        (body,) = self._loop.regions
        operations = body.operations
        body.operations = [_call(self._turn), *operations[:-1], _call(self._end), operations[-1]]
        write(self._loop)
        body.operations = operations
        call_by_architecture(builder, "matrix_wait_0", _VOID, [])
        code.wait()

    def _turn(self) -> None:
        """Write the start of an iteration."""
        builder, stages = self._builder, self._ring.stages
        call_by_architecture(builder, f"matrix_wait_{stages - 2}", _VOID, [])
        self._writer.code.wait()
        last = self._slot.get()
        is_end = builder.icmp_unsigned("==", last, _I32(stages - 1))
        slot = builder.select(is_end, _I32(0), builder.add(last, _I32(1)))
        self._slot.set(slot)
        counter = self._writer.emitter.get(self._loop.regions[0].arguments[0])
        ahead = builder.mul(self._step, self._step.type(stages - 1))
        following = builder.add(counter, ahead)

        def start_copies() -> None:
            self._ring.start_copies = None
            self._load(following, last)
            self._ring.slot = slot

        if self._is_in_groups and self._writer.factors.has_product(self._loop):
            self._ring.slot, self._ring.start_copies = slot, start_copies
        else:
            start_copies()

    def _end(self) -> None:
        """Write the end of an iteration."""
        if self._ring.start_copies is not None:
            self._ring.start_copies()

    def _load(self, counter: ir.Value, slot: ir.Value) -> None:
        """Start the copies of an iteration, if there is one."""
        builder, step = self._builder, self._step
        is_next = builder.icmp_signed("<", counter, self._stop)
        if not (isinstance(step, ir.Constant) and step.constant > 0):
            is_up = builder.icmp_signed(">", step, step.type(0))
            is_before = builder.icmp_signed(">", counter, self._stop)
            is_next = builder.select(is_up, is_next, is_before)
        with builder.if_then(is_next):
            self._copies(counter, slot)
        call_by_architecture(builder, "matrix_commit", _VOID, [])

    def _copies(self, counter: ir.Value, slot: ir.Value) -> None:
        emitter, ring, layouts = self._writer.emitter, self._ring, self._writer.layouts
        known, narrow = emitter.values, emitter.narrow
        argument = self._loop.regions[0].arguments[0]
        emitter.values = {**known, argument: counter}
        emitter.narrow = {key: value for key, value in narrow.items() if key is not argument}
        ring.slot = slot
        assert layouts is not None
        loads = []
        for each in ring.early.operations:
            if each not in ring.early.loads:
                emitter.operations([each])
                continue
            factor = layouts.copied(each)
            assert factor is not None
            loads.append((self._writer, each, factor))
            if not self._is_in_groups:
                copy_factor(*loads[-1], self._writer.factors.memory(each))
        if self._is_in_groups:
            self._groups(loads)
        emitter.values, emitter.narrow = known, narrow

    def _groups(self, loads: list[tuple[TileWriter, Operation, Operand]]) -> None:
        """Copy groups: without tests of each, if the arrays have all elements of the tiles."""
        builder = self._builder
        are_inside = reduce(builder.and_, [is_inside(*about) for about in loads])
        with builder.if_else(are_inside) as branches:
            for is_whole, branch in zip((True, False), branches, strict=True):
                with branch:
                    for about in loads:
                        target = self._writer.factors.memory(about[1])
                        copy_groups(*about, target, is_whole=is_whole)
