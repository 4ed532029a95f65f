"""Memory with a place for each lane of a strip."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.ranges import Interval, ranges_of_region
from targets.cpu.regions.low_bits import low_bits_only

__all__ = ["LaneSlots", "NotStrippedError"]


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
        is_low = all(value in self._low_bits for value in values)
        if place is None or not (
            place.type == values[0].type or (is_low and place.type == types.int32)
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
        """Return a slot of a type."""
        if not isinstance(kind, types.Number | types.Boolean):
            raise NotStrippedError(str(kind))
        made = Operation("lane.slot", [], (kind,), {"lanes": self.lanes}, effect=Effect.ALLOCATE)
        made.result.name = f"{name}_lanes"
        self.declared.append(made)
        return made.result
