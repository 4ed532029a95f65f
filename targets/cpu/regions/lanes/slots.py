"""Memory with a place for each lane of a strip."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from targets.cpu.regions.low_bits import low_bits_only

__all__ = ["LaneSlots", "NotStrippedError"]


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

    def give(self, values: list[Value], name: str) -> Value:
        """Return a slot for values that exist one at a time; they are read from it."""
        is_low = all(value in self._low_bits for value in values)
        place = self.make(types.int32 if is_low else values[0].type, values[0].name or name)
        self.place_of.update(dict.fromkeys(values, place))
        return place

    def share(self, values: list[Value], other: Value | None) -> Value | None:
        """Return the slot of another value, if it can have some values; they are read from it."""
        place = None if other is None else self.place_of.get(other)
        is_low = all(value in self._low_bits for value in values)
        if place is None or not (
            place.type == values[0].type or (is_low and place.type == types.int32)
        ):
            return None
        self.place_of.update(dict.fromkeys(values, place))
        return place

    def make(self, kind: Any, name: str) -> Value:
        """Return a slot of a type."""
        if not isinstance(kind, types.Number | types.Boolean):
            raise NotStrippedError(str(kind))
        made = Operation("lane.slot", [], (kind,), {"lanes": self.lanes}, effect=Effect.ALLOCATE)
        made.result.name = f"{name}_lanes"
        self.declared.append(made)
        return made.result
