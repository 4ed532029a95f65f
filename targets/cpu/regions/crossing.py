"""Values that several loops over threads need.

A value is computed again if that is cheap. If not, it is stored in a slot, which has a place for
each thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.rewriter import clone

if TYPE_CHECKING:
    from targets.cpu.regions.fission import Fission

__all__ = ["VARYING", "Crossing"]

#: What differs between the threads of a block.
VARYING = frozenset((*(f"threadIdx.{axis}" for axis in "xyz"), "local.array"))
#: Operations that are computed again in each loop, not stored.
_CHEAP = frozenset({"const", "cast", "numba", "array.size", "array.extent", "array.part", *VARYING})
#: The same of a block, which has no values of them if it waits for other blocks.
_OF_BLOCK = ("blockIdx.", "gridDim.", "extent.")
_MOST_AGAIN = 6


class Crossing:
    """Gives each loop over threads the values that it needs."""

    def __init__(self, fission: Fission, region: Region) -> None:
        self.fission = fission
        self.region = region
        self.loops = [each for each in region.walk() if each.name == "threads"]
        #: The loop that defines a value.
        self.home = {
            value: loop
            for loop in self.loops
            for operation in loop.walk()
            for value in operation.results
        }
        self.stored: dict[Value, Value] = {}
        #: Values that are in the slot of a variable, until that changes.
        self.shared: set[Value] = set()

    def run(self) -> None:
        self.share(self.region)
        for loop in self.loops:
            self.complete(loop)
        for value, place in self.stored.items():
            self.store(self.home[value].regions[0], value, place)
        self.region.operations[:0] = [
            each for each in self.fission.slots if each not in self.region.operations
        ]

    def share(self, region: Region) -> None:
        """Store what a variable gets at the end of a region when it is computed, if that is safe.

        In a loop with barriers, ``total += …`` has a slot for the sum of the iterations before. The
        new sum can be there at once, if nothing reads the old one from there on. Nothing may read
        the new one after the variable has got it: the variable may change again.
        """
        operations = region.operations
        for last, loop in enumerate(operations):
            for inner in loop.regions if loop.name != "threads" else ():
                self.share(inner)
            stores = loop.regions[0].operations if loop.name == "threads" else []
            for each in [each for each in stores if each.name == "slot.store"]:
                place, value, *_ = each.operands
                home = self.home.get(value)
                if home is None or home is loop or home not in operations[:last]:
                    continue
                is_plain = value.owner in home.regions[0].operations
                later = operations[operations.index(home) + 1 : last + 1]
                is_last = not any(value in other.used() for other in operations[last + 1 :])
                is_free = is_plain and is_last and value not in self.stored
                if is_free and not self.uses(place, later, each):
                    self.stored[value] = place
                    self.shared.add(value)
                    stores.remove(each)
        region.operations = [each for each in operations if not _is_empty(each)]

    def uses(self, place: Value, operations: list[Operation], store: Operation) -> bool:
        """Return whether operations other than a store use what is in a slot."""
        return any(
            value is place or self.fission.slot_of.get(value) is place
            for operation in operations
            for each in operation.walk()
            if each is not store
            for value in each.operands
        )

    def complete(self, loop: Operation) -> None:
        (region,) = loop.regions
        own = loop.defined()
        values: dict[Value, Value] = {}
        front: list[Operation] = []
        for operation in list(region.walk()):
            for number, value in enumerate(operation.operands):
                if value not in own:
                    operation.operands[number] = self.here(value, values, front)
        region.operations[:0] = front

    def here(self, value: Value, values: dict[Value, Value], front: list[Operation]) -> Value:
        """Return a value of another loop in this one."""
        if value in values:
            return values[value]
        if self.fission.is_block(value):
            return value
        if value in self.fission.cell_of:
            cell = self.fission.cell_of[value]
            kept = Operation("cell.load", [cell], (value.type,), effect=Effect.READ)
            front.append(kept)
            values[value] = kept.result
            return kept.result
        place = self.fission.slot_of.get(value) or self.stored.get(value)
        if place is None and self.cost(value) <= _MOST_AGAIN:
            made = value.owner
            assert isinstance(made, Operation)
            for operand in made.operands:
                self.here(operand, values, front)
            front.append(clone(made, values))
            return values[value]
        if place is None:
            place = self.stored[value] = self.fission.slot(value.type, value.name or "value")
        loaded = Operation("slot.load", [place], (value.type,), effect=Effect.READ)
        loaded.result.name = value.name
        front.append(loaded)
        values[value] = loaded.result
        return loaded.result

    def cost(self, value: Value) -> int:
        if self.fission.is_block(value):
            return 0
        made = value.owner
        is_kept = value in self.fission.slot_of or value in self.fission.cell_of
        if is_kept or value in self.shared or not isinstance(made, Operation):
            return 99
        is_cheap = made.name in _CHEAP or made.name.startswith(_OF_BLOCK)
        if not is_cheap or len(made.results) != 1:
            return 99
        return 1 + sum(map(self.cost, made.operands))

    def store(self, region: Region, value: Value, place: Value) -> None:
        for number, operation in enumerate(region.operations):
            if value in operation.results:
                region.operations.insert(
                    number + 1, Operation("slot.store", [place, value], effect=Effect.WRITE)
                )
                return
            for inner in operation.regions:
                self.store(inner, value, place)


def _is_empty(operation: Operation) -> bool:
    """Return whether an operation is a loop over threads that does nothing."""
    return operation.name == "threads" and len(operation.regions[0].operations) == 1
