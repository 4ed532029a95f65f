"""Masks: which threads of a block run what is between two barriers."""

from __future__ import annotations

from dataclasses import field

from numba import types

from kerneldsl.ir.operations import Effect, Label, Operation, Region, Value
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Code", "Frame", "Mask", "closed", "constant", "store", "under"]


@dataclass(eq=False)
class Code:
    """The code of a block that is being written: loops over threads, and what the block does."""

    out: list[Operation] = field(default_factory=list)
    #: What threads do since the last barrier.
    group: list[Operation] = field(default_factory=list)


@dataclass(eq=False)
class Frame:
    """A ``labeled`` operation that is being split."""

    label: Label
    #: Number of those around it.
    depth: int
    #: Number of masks outside of it.
    base: int
    #: The code of its region.
    code: Code
    #: Slots of its results.
    slots: list[Value]
    #: A slot that says whether a thread has not left it, if it must be known.
    inside: Value | None = None
    #: Whether the block leaves it.
    is_left: bool = False


@dataclass(eq=False)
class Mask:
    """A condition of each thread: a value, or what is in a slot."""

    condition: Value
    is_slot: bool = False
    is_negated: bool = False
    #: What threads have left that fail it.
    frame: Frame | None = None
    #: Whether it implies all masks before it.
    is_of_loop: bool = False


def constant(value: bool) -> Operation:
    """Return an operation that gives a truth value."""
    return Operation("const", [], (types.boolean,), {"value": value})


def store(slot: Value, value: Value) -> Operation:
    """Return an operation that writes the value of a thread."""
    return Operation("slot.store", [slot, value], effect=Effect.WRITE)


def under(masks: list[Mask], operations: list[Operation]) -> list[Operation]:
    """Return operations that run if a thread passes all masks."""
    first = max((n for n, mask in enumerate(masks) if mask.is_of_loop), default=0)
    for mask in reversed(masks[first:]):
        condition = mask.condition
        before = []
        if mask.is_slot:
            kinds = (types.boolean,)
            before = [Operation("slot.load", [condition], kinds, effect=Effect.READ)]
            condition = before[0].result
        regions = [Region(), Region()]
        for region in regions:
            region.operations = [Operation("yield", [])]
        regions[mask.is_negated].operations = [*operations, Operation("yield", [])]
        operations = [*before, Operation("if", [condition], (), None, regions)]
    return operations


def closed(operations: list[Operation], yielded: list[Value]) -> Region:
    """Return a region of what a block does; values are not yielded if it never gets to its end."""
    region = Region()
    region.operations = list(operations)
    last = operations[-1] if operations else None
    if last is not None and last.name == "leave":
        return region
    if last is not None and _never_ends(last):
        region.operations.append(Operation("unreachable", [], effect=Effect.LEAVE))
    else:
        region.operations.append(Operation("yield", yielded))
    return region


def _never_ends(operation: Operation) -> bool:
    """Return whether control never gets to what follows an operation."""
    if operation.name == "if":
        return all(region.is_left for region in operation.regions)
    return (
        operation.name == "labeled" and operation.regions[0].is_left and not any(operation.leaves())
    )
