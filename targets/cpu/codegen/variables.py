"""Places of the private variables that items need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from targets.cpu.passes.items import Item
from targets.cpu.passes.liveness import Liveness
from targets.cpu.passes.rematerialization import Rematerializable

__all__ = ["Slot", "Variables"]


@dataclass(frozen=True)
class Slot:
    """Storage of a private variable, for each type it has at the items that fetch it."""

    #: Variables of the generated code, one for each type.
    names: tuple[str, ...]
    #: Operations that make them.
    makers: tuple[str, ...]


@dataclass(frozen=True)
class Variables:
    """Origin of each private variable where an item needs it."""

    #: Variables that are computed again.
    pure: Rematerializable
    #: Of the items, those along rows included.
    liveness: Liveness
    #: Variable to slot.
    slots: Mapping[str, Slot]
    #: For each item, the type index of each variable it fetches.
    fetched: Mapping[Item, Mapping[str, int]]
    #: Pure variables that are computed before the items, once for a unit of work.
    once: frozenset[str]
    #: Variables whose slots have a value for each lane of a strip; else for each thread of a block.
    by_lane: frozenset[str]
    #: Whether threads may run an item in any order.
    any_order: bool
    #: Variables that always hold one array of the block's own storage.
    own_arrays: frozenset[str]
