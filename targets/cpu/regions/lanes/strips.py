"""Run a row of threads in strips: loops of threads become loops of a strip.

The threads of a strip are the lanes of vectors. Each operation that differs between them is in a
``row`` over the lanes. A loop that all lanes run equally often has such rows in its body. A value
that several rows need is in a slot with a place for each lane, or is computed again if that is
cheap. LLVM makes vectors of the rows of a full strip, unrolls them, and has their slots in
registers.

Each thread does what it did, in the same order.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from numba import types

from kerneldsl.ir.operations import (
    Effect,
    Operation,
    Region,
    Value,
    given_to,
    handed_on,
    keep_results,
)
from kerneldsl.ir.recognize import constant_number
from kerneldsl.ir.rewriter import clone, if_then
from kerneldsl.lowering.loop_marks import IN_SHORT_VECTORS, NOT_UNROLLED, UNROLLED_AS_VECTORS
from targets.cpu.regions.lanes.masked import masked_loop, write_masked
from targets.cpu.regions.lanes.slots import LaneSlots, RowReads
from targets.cpu.regions.lanes.values import (
    IN_REGISTERS,
    Choice,
    LaneValues,
    loads_of_bounds,
    of_first_thread,
)
from targets.cpu.regions.loop_writer import LoopWriter

__all__ = ["Strip"]


class Strip:
    """Writes what a strip of a row runs; the row is used up.

    `start` is the index of the first thread, `width` the number of threads; `lanes` is the most
    that it can be.
    """

    def __init__(self, row: Operation, start: Value, width: Value, lanes: int, zero: Value) -> None:
        self.row = row
        self.start, self.width, self.lanes, self.zero = start, width, lanes, zero
        self.values = LaneValues(row, loads_of_bounds(row))
        self.choice = Choice(self.values)
        self.slots = LaneSlots(lanes, row.regions[0])
        self.rows: list[Operation] = []
        #: Results of loops that may use the slot of a variable of the loop around, and its value.
        self.shared: dict[Value, Value] = {}
        self.is_full = lanes == constant_number(width)

    def operations(self) -> list[Operation]:
        found = self.split(self.row.regions[0].operations[:-1])
        RowReads(self.rows, self.slots, self.values, self.start).complete(found)
        return [*self.slots.declared, *found]

    def run_row(
        self, operations: list[Operation], end: Value | None = None, *in_registers: str
    ) -> Operation:
        """Return operations as a loop over the lanes, up to an end or to the strip's."""
        region = Region((types.int64,))
        region.arguments[0].name = "lane"
        region.operations = [*operations, Operation("yield", [])]
        marks: tuple[str, ...] = ()
        if self.is_full and end is None:
            marks = (NOT_UNROLLED,)
            if self.lanes <= IN_REGISTERS:
                marks = (*in_registers, NOT_UNROLLED, UNROLLED_AS_VECTORS)
        bounds = [self.zero, end or self.width]
        made = Operation("row", bounds, (), {"marks": marks}, [region])
        self.rows.append(made)
        return made

    # -- splitting --------------------------------------------------------------------------------

    def split(self, operations: list[Operation]) -> list[Operation]:
        """Return operations that each thread runs as operations of the strip."""
        out: list[Operation] = []
        group: list[Operation] = []

        def flush() -> None:
            if group:
                out.append(self.run_row(list(group)))
                group.clear()

        for operation in operations:
            if self.stores_itself(operation):
                continue
            write: Callable[[Operation], list[Operation]]
            if self.runs_once(operation):
                writes = any(each.effects() & Effect.WRITE for each in group)
                if operation.effects() & Effect.READ and writes:
                    flush()
                out.append(operation)
                continue
            if self.choice.takes_turns(operation):
                write = self.turns
            elif self.choice.is_moved(operation):
                write = self.moved
            elif self.choice.is_common(operation):
                flush()
                out.append(self.branch(operation))
                continue
            elif (loop := masked_loop(operation, self.values)) is not None:
                out += write_masked(self, loop, group)
                continue
            else:
                group.append(operation)
                continue
            starts = self.store_given(operation, group)
            flush()
            if starts:
                out.append(self.run_row(starts, None, IN_SHORT_VECTORS))
            out += write(operation)
        flush()
        return out

    def stores_itself(self, operation: Operation) -> bool:
        """Return whether an operation stores what is in the slot already."""
        if operation.name != "lane.store":
            return False
        place, value, *_ = operation.operands
        return self.slots.place_of.get(value) is place

    def runs_once(self, operation: Operation) -> bool:
        """Return whether an operation gives the whole strip one result."""
        return (
            bool(operation.results)
            and not self.values.vary(operation.results)
            and not operation.effects() & ~(Effect.READ | Effect.ALLOCATE)
        )

    def store_given(self, loop: Operation, group: list[Operation]) -> list[Operation]:
        """Give the variables of a loop that differ between lanes a slot, and store the first.

        Return the stores of what all lanes begin with. In their own row the vectors are as long as
        in the loop: it depends on the types there.
        """
        writer, shared = LoopWriter(group), LoopWriter()
        for values, (value, *_) in handed_on(loop):
            if not self.values.vary(values):
                continue
            place = self.slots.share(values, self.shared.get(values[0]))
            if place is None or self.slots.place_of.get(value) is not place:
                store = writer if value in self.values.varying else shared
                store.store(place or self.slots.give(values, "carried"), value)
        return shared.operations

    def moved(self, loop: Operation) -> list[Operation]:
        """Return a loop that all lanes run equally often, with rows in its body."""
        body = loop.regions[-1]
        kept = [each not in self.slots.place_of for each in loop.results]
        stores = LoopWriter()
        shared = shared_slots(loop)
        self.shared |= shared
        for number, result in enumerate(loop.results):
            if not kept[number]:
                stores.store(self.slots.place_of[result], body.yielded[number])
        inside = self.split([*body.operations[:-1], *stores.operations])
        body.operations = [*inside, body.operations[-1]]
        keep_results(loop, kept)
        return [loop]

    def branch(self, operation: Operation) -> Operation:
        """Return a branch that all lanes take in the same way, with rows in it."""
        kept = [not self.values.vary([result]) for result in operation.results]
        places = [
            None if is_kept else self.slots.give([result], "value")
            for result, is_kept in zip(operation.results, kept, strict=True)
        ]
        for region in operation.regions:
            stores = LoopWriter()
            for place, value in zip(places, region.yielded, strict=True):
                if place is not None:
                    stores.store(place, value)
            inside = self.split([*region.operations[:-1], *stores.operations])
            region.operations = [*inside, region.operations[-1]]
        keep_results(operation, kept)
        return operation

    def turns(self, loop: Operation) -> list[Operation]:
        """Return a loop in which threads take turns as a loop over turns.

        ``for j in range(start + thread, stop, step)`` becomes ``for base in range(start, stop,
        step)``, with a row of the threads for which ``base + thread`` is less than `stop`.
        """
        begin, stop, step, *_ = loop.operands
        body = loop.regions[0]
        counter, *_ = body.arguments
        out = LoopWriter()
        start = of_first_thread(begin, self.values, out)
        made = Region((types.int64,))
        (base,) = made.arguments
        base.name = "base"
        turn = LoopWriter()
        left = turn.difference(turn.difference(stop, base), self.start)
        room = turn.smaller(left, self.width)
        room.name = "room"
        group = LoopWriter()
        index = group.numba(operator.add, base, self.values.lane)
        index.name = counter.name
        stores = LoopWriter()
        for result, last in zip(loop.results, body.yielded, strict=True):
            stores.store(self.slots.place_of[result], last)
        body.operations[-1:-1] = stores.operations
        values = {counter: index}
        group.operations += [clone(each, values) for each in body.operations[:-1]]
        turn.operations += self._in_turn(group.operations, room, turn)
        made.operations = [*turn.operations, Operation("yield", [])]
        out.operation("for", [start, stop, step], (), dict(loop.attributes), [made])
        return out.operations

    def _in_turn(self, group: list[Operation], room: Value, turn: LoopWriter) -> list[Operation]:
        """Return a row up to an end; in a full strip, the whole row is its own code."""
        if not self.is_full:
            return [self.run_row(group, room)]
        copies: dict[Value, Value] = {}
        again = [clone(each, copies) for each in group]
        is_whole = turn.numba(operator.eq, room, self.width)
        return [if_then(is_whole, [self.run_row(group)], [self.run_row(again, room)])]


# The inner loop of ``for p: for q: total += …`` begins with the outer one's value, and its result
# is the outer one's next value. With two slots, lanes would copy the value for each iteration of
# the outer loop, in and out.


def shared_slots(outer: Operation) -> dict[Value, Value]:
    """Return results of loops in a loop's body that can be in a slot of that loop's.

    Each has the argument of the loop that the slot is for.
    """
    if outer.name != "for":
        return {}
    body = outer.regions[0]
    count = len(outer.results)
    found: dict[Value, Value] = {}
    for argument, last in zip(body.arguments[-count:] if count else (), body.yielded, strict=True):
        inner = last.owner
        if not isinstance(inner, Operation) or inner not in body.operations or inner.name != "for":
            continue
        if body.yielded.count(last) == 1 and _is_used_before(body.operations, inner, argument):
            found[last] = argument
    return found


def _is_used_before(operations: list[Operation], inner: Operation, argument: Value) -> bool:
    """Return whether nothing reads an argument after a loop has begun."""
    first = operations.index(inner)
    reads = [value for region in inner.regions for each in region.walk() for value in each.operands]
    reads += inner.operands[: len(inner.operands) - len(given_to(inner))]
    reads += [value for each in operations[first + 1 :] for value in each.used()]
    # Another variable of the loop may have it as its initial value, too.
    return argument not in reads and given_to(inner).count(argument) <= 1
