"""Walks from a value to its operands, and from an operation to its place in the source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from numba import types

from kerneldsl.errors import SourceLocation
from kerneldsl.ir.operations import LOOPS, Effect, Function, Operation, Region, Value
from kerneldsl.ir.recognize import is_shared_array, sources_of

__all__ = [
    "INVARIANT",
    "affects_others",
    "leads_to",
    "loads_ahead",
    "location",
    "made_of",
    "own_loops",
    "statements_in",
]

_REGISTERS = ("threadIdx", "blockIdx", "blockDim", "gridDim")
#: Operations that give the same value each time if their operands do.
INVARIANT = frozenset(
    (
        *("const", "cast", "numba", "array.size", "array.extent", "grid", "gridsize", "tuple.make"),
        *(f"{name}.{axis}" for name in _REGISTERS for axis in "xyz"),
    )
)


def made_of(value: Value) -> list[Value]:
    """Return a value and what arithmetic made it of, up to loads and arguments."""
    return sources_of([value], _operands)


def _operands(made: Operation) -> list[Value]:
    operands = made.operands if made.effect == Effect.NONE else []
    return [*operands, *(value for region in made.regions for value in region.yielded)]


def leads_to(source: Value, values: Iterable[Value]) -> bool:
    """Return whether one of some values is computed from another by arithmetic."""
    return any(each is source for value in values for each in made_of(value))


def own_loops(loop: Operation) -> Iterator[Operation]:
    """Yield the loops in a loop, except those of functions that it calls."""
    unit = loop.place.unit if loop.place else None
    for region in loop.regions:
        for each in region.walk():
            if each.name in LOOPS and (each.place is None or each.place.unit is unit):
                yield each


def affects_others(operation: Operation) -> bool:
    """Return whether an operation may affect other threads, except by memory that it writes."""
    is_call = "use" in operation.attributes and operation.effect != Effect.NONE
    return is_call or bool(operation.effect & ~(Effect.READ | Effect.WRITE | Effect.LEAVE))


def statements_in(region: Region) -> int:
    """Return about how many statements a region was read from: lines and calls of them."""
    return len({operation.place[0] for operation in region.walk() if operation.place})


def location(function: Function, operation: Operation) -> SourceLocation:
    """Return the place of an operation in the user's file."""
    place = operation.place
    if place is None:
        return SourceLocation(function.unit.filename, function.unit.first_line)
    unit = place.unit
    return SourceLocation(unit.filename, place.line, place.column, place.end_column, unit.qualname)


# Find loops with loads that may come before the stores of earlier iterations.


def loads_ahead(loop: Operation, parameters: frozenset[Value]) -> list[Operation]:
    """Return the loads of a loop that fills shared memory from arrays; of other loops nothing.

    It has no variables and no branches, and stores to shared arrays alone. These share no memory
    with arrays of the kernel, so a load may be moved before any store.
    """
    body = loop.regions[-1]
    if loop.results or body.is_left:
        return []
    loads = []
    for each in body.operations[:-1]:
        if each.regions:
            return []
        if each.name == "array.load" and each.operands[0] in parameters:
            if not isinstance(each.result.type, types.Integer | types.Float):
                return []
            loads.append(each)
        elif each.effect != Effect.NONE and not (
            each.name == "array.store" and is_shared_array(each.operands[0])
        ):
            return []
    return loads
