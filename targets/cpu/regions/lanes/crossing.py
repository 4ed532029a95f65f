"""Give each row of a strip the values that it needs of other rows."""

from __future__ import annotations

import operator

from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.recognize import operator_of
from kerneldsl.ir.rewriter import clone
from targets.cpu.regions.lanes.choice import IN_REGISTERS
from targets.cpu.regions.lanes.slots import LaneSlots, NotStrippedError
from targets.cpu.regions.lanes.values import LaneValues
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_regions import defined_in

__all__ = ["Crossing", "needs_thread"]

#: Operators that are computed again, not stored.
_CHEAP_OPERATORS = frozenset(
    getattr(operator, name)
    for each in ("add", "sub", "mul", "and_", "or_", "xor", "lshift", "rshift")
    for name in (each, f"i{each.rstrip('_')}")
) | {operator.neg, operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne}
_CHEAP = frozenset({"const", "cast", "array.size", "array.extent", "array.part", "tuple.make"})
_MOST_AGAIN = 6
_FAR = 99
#: Operations that get the index of the lane as their last operand, and how many they have then.
_WITH_LANE = {"lane.load": 2, "lane.store": 3}


class Crossing:
    """Completes the rows of a strip that begins at a thread."""

    def __init__(
        self, rows: list[Operation], slots: LaneSlots, lane_values: LaneValues, start: Value
    ) -> None:
        self.rows, self.slots, self.start = rows, slots, start
        #: The index of the thread in the row as it was.
        self.thread = lane_values.lane
        #: The row that defines a value.
        self.home = {value: row for row in rows for value in _results_in(row)}
        #: What operations read before rows had separate values.
        self.operands = {each: list(each.operands) for row in rows for each in row.walk()}
        self.stored: dict[Value, Value] = {}
        accesses = [each for row in rows for each in row.walk()]
        #: Slots of the block that the strip only reads.
        self.read_only = {each.operands[0] for each in accesses if each.name == "slot.load"}
        self.read_only -= {each.operands[0] for each in accesses if each.name == "slot.store"}

    def run(self, operations: list[Operation]) -> None:
        """Complete the rows among some operations."""
        for row in self.rows:
            self.complete(row)
        self.verify(operations)
        for value, place in self.stored.items():
            region = self.home[value].regions[0]
            number = next(n for n, each in enumerate(region.operations) if value in each.results)
            store = LoopWriter()
            store.store(place, value, region.arguments[0])
            region.operations[number + 1 : number + 1] = store.operations

    def verify(self, operations: list[Operation]) -> None:
        """Refuse a strip in which what runs once needs a value of a lane."""
        for operation in operations:
            if any(value in self.home or value is self.thread for value in operation.operands):
                raise NotStrippedError(operation.name)
            if operation.name != "row":
                for region in operation.regions:
                    self.verify(region.operations)

    def complete(self, row: Operation) -> None:
        """Bring the values of others into a row."""
        (region,) = row.regions
        (lane,) = region.arguments
        own = defined_in(row)
        front = LoopWriter()
        values: dict[Value, Value] = {}
        for operation in list(region.walk()):
            if len(operation.operands) < _WITH_LANE.get(operation.name, 0):
                operation.operands.append(lane)
            for number, value in enumerate(operation.operands):
                if value not in own:
                    operation.operands[number] = self.here(value, lane, values, front)
        if any(map(needs_thread, region.operations)):
            thread = self.here(self.thread, lane, values, front)
            front.operation("lane.thread", [thread], effect=Effect.WRITE)
        region.operations[:0] = front.operations

    def here(
        self, value: Value, lane: Value, values: dict[Value, Value], front: LoopWriter
    ) -> Value:
        """Return a value of another row in this one."""
        found = values.get(value)
        if found is not None:
            return found
        if value is self.thread:
            found = front.numba(operator.add, self.start, lane)
        else:
            place = self.slots.place_of.get(value)
            if place is None and value not in self.home:
                return value
            if place is None and self.cost(value) <= _MOST_AGAIN:
                return self.again(value, lane, values, front)
            found = front.load(place or self.place(value), lane, kind=value.type)
        found.name = value.name
        values[value] = found
        return found

    def again(
        self, value: Value, lane: Value, values: dict[Value, Value], front: LoopWriter
    ) -> Value:
        """Compute a value again."""
        made = value.owner
        assert isinstance(made, Operation)
        copy = clone(made, values)
        copy.operands = [self.here(each, lane, values, front) for each in self.operands[made]]
        front.operations.append(copy)
        return values[value]

    def place(self, value: Value) -> Value:
        """Give a value a slot."""
        home = self.home[value].regions[0]
        if not any(value in each.results for each in home.operations):
            raise NotStrippedError(str(value.type))
        self.stored[value] = self.slots.give([value], "value")
        return self.stored[value]

    def cost(self, value: Value) -> int:
        """Return how many operations it takes to compute a value again."""
        if value is self.thread:
            return 1
        if value in self.slots.place_of:
            return _FAR
        if value not in self.home:
            return 0
        made = value.owner
        if not isinstance(made, Operation) or len(made.results) != 1 or made.regions:
            return _FAR
        is_slot = made.name == "slot.load" and made.operands[0] in self.read_only
        is_cheap = made.name in _CHEAP or operator_of(made) in _CHEAP_OPERATORS
        if not is_cheap and not (is_slot and self.slots.lanes > IN_REGISTERS):
            return _FAR
        return 1 + sum(map(self.cost, self.operands[made]))


def needs_thread(operation: Operation) -> bool:
    """Return whether an operation has memory for each thread, by the thread's index."""
    names = ("exchange.", "local.", "vote.", "fault")
    return any(each.name.startswith(names) for each in operation.walk())


def _results_in(row: Operation) -> set[Value]:
    return {value for each in row.regions[0].walk() for value in each.results}
