"""Memory with a place for each lane of a strip, and the values that rows need of other rows.

An integer has a slot of 32 bits if nothing reads more of it.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import CONTROL, Effect, Operation, Region, Value, given_to, handed_on
from kerneldsl.ir.ranges import Interval, ranges_of_region
from kerneldsl.ir.recognize import operator_of
from targets.cpu.regions import memory
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.lanes.values import IN_REGISTERS, LaneValues
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.memory import Crossing

__all__ = ["HANDLERS", "LaneSlots", "NotStrippedError", "RowReads", "low_bits_only", "needs_thread"]

_LONG: Interval = (-(2**63), 2**63 - 1)


class NotStrippedError(Exception):
    """A row that is not run in strips, because of a value that lanes cannot keep."""


class LaneSlots:
    """The slots of a strip of so many lanes, which runs a region."""

    def __init__(self, lanes: int, region: Region) -> None:
        self.lanes = lanes
        self.declared: list[Operation] = []
        #: Values that are read from a slot wherever a row needs them.
        self.place_of: dict[Value, Value] = {}
        self._low_bits = low_bits_only(region)
        self._known = ranges_of_region(region, {})

    def give(self, values: list[Value], name: str) -> Value:
        """Return a slot for values that exist one at a time; they are read from it."""
        is_narrow = all(map(self._is_narrow, values))
        place = self.make(types.int32 if is_narrow else values[0].type, values[0].name or name)
        self.place_of.update(dict.fromkeys(values, place))
        return place

    def share(self, values: list[Value], other: Value | None) -> Value | None:
        """Return the slot of another value, if it can have some values; they are read from it."""
        place = None if other is None else self.place_of.get(other)
        is_narrow = all(map(self._is_narrow, values))
        if place is None or not (
            place.type == values[0].type or (is_narrow and place.type == types.int32)
        ):
            return None
        self.place_of.update(dict.fromkeys(values, place))
        return place

    def _is_narrow(self, value: Value) -> bool:
        """Return whether 32 bits have all that is read of an integer."""
        if value in self._low_bits:
            return True
        low, high = self._known.get(value, _LONG)
        return value.type == types.int64 and low >= -(2**31) and high < 2**31

    def make(self, kind: Any, name: str) -> Value:
        if not isinstance(kind, types.Number | types.Boolean):
            raise NotStrippedError(str(kind))
        made = Operation("lane.slot", [], (kind,), {"threads": self.lanes}, effect=Effect.ALLOCATE)
        made.result.name = f"{name}_lanes"
        self.declared.append(made)
        return made.result


# -- integers of which only the low 32 bits are read -----------------------------------------------


_WIDTH = 32
_LONG_TYPES = (types.int64, types.uint64)
#: Operators with low bits that depend on the low bits of their operands alone.
_MODULAR = {
    *(operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor),
    *(operator.neg, operator.invert),
}


def low_bits_only(region: Region) -> set[Value]:
    """Return the integers of 64 bits in a region with a high half that is never read."""
    needs: dict[Value, list[Value]] = defaultdict(list)
    whole: list[Value] = []
    found: set[Value] = set()

    def hand_on(source: Value, target: Value) -> None:
        """Say that the high half of a value is read if that of another one is."""
        needs[target].append(source)

    for operation in region.walk():
        values = [*operation.results, *(v for each in operation.regions for v in each.arguments)]
        found.update(value for value in values if value.type in _LONG_TYPES)
        whole += _read_whole(operation, hand_on)
    whole += region.yielded
    while whole:
        value = whole.pop()
        found.discard(value)
        whole += needs.pop(value, [])
    return found


def _read_whole(operation: Operation, hand_on: Callable[[Value, Value], None]) -> list[Value]:
    """Return the operands that an operation reads whole; say what else it depends on."""
    if operation.name in ("yield", "leave"):
        return []  # what they lead to says it
    if operation.name in CONTROL:
        count = len(given_to(operation))
        for targets, sources in handed_on(operation):
            for target, source in itertools.product(targets, (*targets, *sources)):
                hand_on(source, target)
        tests = operation.regions[0].yielded[:1] if operation.name == "while" else []
        return [*operation.operands[: len(operation.operands) - count], *tests]
    if operation.name == "cast" and _is_narrow(operation.result):
        return []
    if operator_of(operation) in _MODULAR and operation.result.type in _LONG_TYPES:
        for value in operation.operands:
            hand_on(value, operation.result)
        return []
    return [*operation.operands, *(v for each in operation.regions for v in each.yielded)]


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, types.Integer) and value.type.bitwidth <= _WIDTH


# -- code -----------------------------------------------------------------------------------------


_I8 = ir.IntType(8)


def _count(slot: Value) -> int:
    assert isinstance(slot.owner, Operation)
    count: int = slot.owner.attributes["threads"]
    return count


def _words(emitter: CpuEmitter, slot: Value, lanes: int) -> list[Any]:
    """Return the addresses of the truth values of a slot, as vectors of so many lanes."""
    start = emitter.builder.bitcast(emitter.get(slot), ir.VectorType(_I8, lanes).as_pointer())
    parts = range(_count(slot) // lanes)
    return [emitter.builder.gep(start, [ir.IntType(64)(n)], inbounds=True) for n in parts]


def _any(emitter: CpuEmitter, operation: Operation) -> None:
    """Write whether a truth value of a lane is set.

    They are read by four, the narrowest vectors of loops over lanes. LLVM keeps what these loops
    store in one register for each read, and would take a wider one apart in each iteration.
    """
    builder = emitter.builder
    (slot,) = operation.operands
    width = math.gcd(_count(slot), 4)
    read = [builder.load(place) for place in _words(emitter, slot, width)]
    mask = builder.bitcast(functools.reduce(builder.or_, read), ir.IntType(8 * width))
    emitter.set(operation, builder.icmp_unsigned("!=", mask, mask.type(0)))


def _clear(emitter: CpuEmitter, operation: Operation) -> None:
    (slot,) = operation.operands
    (place,) = _words(emitter, slot, _count(slot))
    emitter.builder.store(ir.Constant(place.type.pointee, None), place)


def _head(emitter: CpuEmitter, operation: Operation) -> None:
    """Keep the block before a loop over lanes apart from the head of the loop around it.

    LLVM would merge an empty one, and then has a single loop, which it cannot unroll: the values of
    lanes would stay in memory. ``llvm.sideeffect`` is no instruction in the end.
    """
    builder = emitter.builder
    nothing = ir.FunctionType(ir.VoidType(), ())
    builder.call(builder.module.declare_intrinsic("llvm.sideeffect", (), nothing), ())


def _thread(emitter: CpuEmitter, operation: Operation) -> None:
    """Let what follows find the memory of a thread."""
    emitter.ids["threadIdx.x"] = emitter.get(operation.operands[0])


HANDLERS = {
    "lane.slot": memory.slot,
    "lane.load": memory.load,
    "lane.store": memory.store,
    "lane.any": _any,
    "lane.clear": _clear,
    "lane.head": _head,
    "lane.thread": _thread,
}


# -- values of other rows --------------------------------------------------------------------------


#: Operators that are computed again, not stored.
_CHEAP_OPERATORS = {
    *(operator.add, operator.sub, operator.mul, operator.and_, operator.or_, operator.xor),
    *(operator.lshift, operator.rshift, operator.neg),
    *(operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne),
}
_CHEAP = frozenset({"const", "cast", "array.size", "array.extent", "array.part", "tuple.make"})
#: Operations that get the index of the lane as their last operand, and how many they have then.
_WITH_LANE = {"lane.load": 2, "lane.store": 3}


class RowReads(Crossing):
    """Completes the rows of a strip that begins at a thread."""

    def __init__(
        self, rows: list[Operation], slots: LaneSlots, lane_values: LaneValues, start: Value
    ) -> None:
        super().__init__(rows)
        self.slots, self.start = slots, start
        #: The index of the thread in the row as it was.
        self.thread = lane_values.lane
        accesses = [each for row in rows for each in row.walk()]
        #: Slots of the block that the strip only reads.
        self.read_only = {each.operands[0] for each in accesses if each.name == "slot.load"}
        self.read_only -= {each.operands[0] for each in accesses if each.name == "slot.store"}

    def complete(self, operations: list[Operation]) -> None:
        """Complete the rows among some operations.

        Accesses of slots get the index of the lane as their last operand.
        """
        for row in self.loops:
            if any(map(needs_thread, row.regions[0].operations)):
                thread = Operation("lane.thread", [self.thread], effect=Effect.WRITE)
                row.regions[0].operations.insert(0, thread)
        self.run()
        self.verify(operations)
        for row in self.loops:
            for each in row.walk():
                if len(each.operands) < _WITH_LANE.get(each.name, 0):
                    each.operands += row.regions[0].arguments

    def verify(self, operations: list[Operation]) -> None:
        """Refuse a strip in which what runs once needs a value of a lane."""
        for operation in operations:
            if any(value in self.home or value is self.thread for value in operation.operands):
                raise NotStrippedError(operation.name)
            if operation.name != "row":
                for region in operation.regions:
                    self.verify(region.operations)

    def is_given(self, value: Value) -> bool:
        return not (value is self.thread or value in self.home or value in self.slots.place_of)

    def place_of(self, value: Value) -> Value | None:
        return self.slots.place_of.get(value)

    def new_place(self, value: Value) -> Value:
        if not any(value in each.results for each in self.home[value].regions[0].operations):
            raise NotStrippedError(str(value.type))
        return self.slots.give([value], "value")

    def is_cheap(self, made: Operation) -> bool:
        if made.name == "slot.load" and made.operands[0] in self.read_only:
            return self.slots.lanes > IN_REGISTERS
        return made.name in _CHEAP or operator_of(made) in _CHEAP_OPERATORS

    def here(self, value: Value, values: dict[Value, Value], front: LoopWriter) -> Value:
        if value is self.thread and value not in values:
            values[value] = front.numba(operator.add, self.start, *self.loop.regions[0].arguments)
            values[value].name = value.name
        return super().here(value, values, front)

    def cost(self, value: Value) -> int:
        return 1 if value is self.thread else super().cost(value)


def needs_thread(operation: Operation) -> bool:
    """Return whether an operation uses memory for each thread, by the thread's index."""
    names = ("exchange.", "lane.read", "local.", "vote.", "fault")
    return any(each.name.startswith(names) for each in operation.walk())
