"""The operation ``row``: a loop over neighbouring elements or threads, in any order.

::

    row %low, %high { (%i: int64) … }

What all iterations share is computed before it. An element kernel has one for each part of a row of
elements, from ``row.low`` to ``row.high``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from numba import types

from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from kerneldsl.ir.recognize import operands_of, operator_of
from kerneldsl.ir.rewriter import drop_unused, replace_values
from targets.cpu.regions.index_arithmetic import IndexArithmetic
from targets.cpu.regions.loops import loop_takes_any_order

__all__ = [
    "defined_in",
    "element_rows",
    "has_effects",
    "if_then",
    "loaded_once",
    "move_shared",
    "replace_rows",
    "row_like",
    "row_of",
]

#: Operations without effects that take little time.
_CHEAP = frozenset(
    {
        *("const", "cast", "numba", "array.size", "array.extent", "array.stride"),
        *("gridsize", "grid.x", "grid.y", "grid.z", "tuple.make", "tuple.member"),
        *(f"{name}.{axis}" for name in ("blockIdx", "gridDim", "extent") for axis in "xyz"),
    }
)
_FUNCTIONS = frozenset(
    {*(value for value in vars(operator).values() if callable(value)), min, max, abs, bool}
)


def row_of(low: Value, high: Value, region: Region) -> Operation:
    """Return a row."""
    return Operation("row", [low, high], (), {}, [region])


def row_like(row: Operation, region: Region, bounds: Sequence[Value] = ()) -> Operation:
    """Return a row like another one, with another body, and with its bounds if none are given."""
    return Operation("row", [*(bounds or row.operands)], (), dict(row.attributes), [region])


def if_then(condition: Value, yes: Iterable[Operation], no: Iterable[Operation] = ()) -> Operation:
    """Return a branch without results."""
    regions = []
    for operations in (yes, no):
        region = Region()
        region.operations = [*operations, Operation("yield", [])]
        regions.append(region)
    return Operation("if", [condition], (), None, regions)


def defined_in(operation: Operation) -> set[Value]:
    """Return the values that are defined in the regions of an operation."""
    found = {value for each in operation.walk() for value in each.results}
    found -= set(operation.results)
    return found | {
        value for each in operation.walk() for region in each.regions for value in region.arguments
    }


def replace_rows(region: Region, write: Callable[[Operation], list[Operation]]) -> None:
    """Replace each row by the operations that a function returns, in place."""
    out: list[Operation] = []
    for operation in region.operations:
        if operation.name == "row":
            out += write(operation)
            continue
        for inner in operation.regions:
            replace_rows(inner, write)
        out.append(operation)
    region.operations = out


def element_rows(function: Function, axes: str) -> Value:
    """Put the body of an element kernel into a row, in place; return the index of the row.

    `axes` are the axes of rows that the axes of ``grid`` are.
    """
    body = function.body
    low, high = (Operation(f"row.{each}", [], (types.int64,)) for each in ("low", "high"))
    region = Region((types.int64,))
    (index,) = region.arguments
    index.name = "x"
    found: dict[Value, Value] = {}
    others: dict[str, Operation] = {}
    for operation in body.walk():
        if operation.name != "grid":
            continue
        axis = axes[operation.attributes.get("axis", 0)]
        if axis == "x":
            found[operation.result] = index
        else:
            if axis not in others:
                others[axis] = Operation(f"grid.{axis}", [], (types.int64,))
                others[axis].result.name = axis
            found[operation.result] = others[axis].result
    replace_values(body, found)
    drop_unused(body)
    region.operations = body.operations
    row = row_of(low.result, high.result, region)
    shared = move_shared(row)
    body.operations = [low, high, *others.values(), *shared, row, Operation("yield", [])]
    return index


def move_shared(row: Operation) -> list[Operation]:
    """Move what all iterations share out of a row, and return it."""
    return _Shared(row).move()


class _Shared:
    """Moves what all iterations share in front of a row, also out of branches."""

    def __init__(self, row: Operation) -> None:
        self.row = row
        self.inside = defined_in(row)
        self.moved: list[Operation] = []
        self.same: dict[Value, Value] = {}
        self._known: dict[Any, Operation] = {}

    def move(self) -> list[Operation]:
        """Move it; return what was moved."""
        self.region(self.row.regions[0])
        return self.moved

    def region(self, region: Region) -> None:
        kept = []
        for operation in region.operations:
            operation.operands = [self.same.get(each, each) for each in operation.operands]
            for inner in operation.regions:
                self.region(inner)
            if self.is_shared(operation):
                self.take(operation)
            else:
                kept.append(operation)
        region.operations = kept

    def is_shared(self, operation: Operation) -> bool:
        if operation.effect or not self.inside.isdisjoint(operation.operands):
            return False
        if operation.name == "if":
            regions = operation.regions
            yielded = [value for region in regions for value in region.yielded]
            return (
                bool(operation.results)
                and all(len(region.operations) == 1 for region in regions)
                and not any(region.is_left for region in regions)
                and self.inside.isdisjoint(yielded)
            )
        if operation.name == "numba":
            kinds = [value.type for value in (*operands_of(operation), *operation.results)]
            are_numbers = all(isinstance(kind, types.Number | types.Boolean) for kind in kinds)
            return are_numbers and operator_of(operation) in _FUNCTIONS
        return operation.name in _CHEAP

    def take(self, operation: Operation) -> None:
        self.inside -= set(operation.results)
        key = _key(operation)
        found = self._known.setdefault(key, operation) if key is not None else operation
        if found is operation:
            self.moved.append(operation)
        else:
            self.same[operation.result] = found.result


def _key(operation: Operation) -> Any:
    """Return a key that operations with the same result have, or ``None``."""
    if operation.regions or len(operation.results) != 1:
        return None
    attributes: tuple[Any, ...]
    match operation.name:
        case "const":
            if not isinstance(operation.result.type, types.Number | types.Boolean):
                return None
            value = operation.attributes["value"]
            attributes = (type(value), repr(value))
        case "numba":
            attributes = (operator_of(operation), operation.attributes["signature"])
        case "tuple.make" | "tuple.member" | "gridsize":
            return None
        case _:
            attributes = (operation.attributes.get("axis"),)
    return operation.name, operation.result.type, attributes, tuple(operation.operands)


def has_effects(operations: Iterable[Operation]) -> bool:
    """Return whether operations do more than compute and read."""
    return any(each.effects() & ~Effect.READ for each in operations)


def loaded_once(row: Operation) -> list[Operation]:
    """Return a row in which shared elements are loaded before it, if it has iterations.

    ``distance[i, k] + distance[k, j]`` in a row over ``j`` loads its first element for each vector:
    LLVM cannot see that no iteration writes to it. Between two barriers threads may take turns
    after any instruction, so all of them may load it before the first one writes. This is done to
    what each iteration evaluates in any case, before anything that it writes.
    """
    (region,) = row.regions
    if not loop_takes_any_order(region):
        return [row]
    inside = defined_in(row)
    loads: list[Operation] = []
    known: dict[Any, Operation] = {}
    same: dict[Value, Value] = {}
    for operation in region.operations:
        if operation.effects() & ~Effect.READ:
            break
        if not _is_shared(operation, inside):
            continue
        found = known.setdefault(tuple(operation.operands), operation)
        if found is operation:
            loads.append(operation)
        else:
            same[operation.result] = found.result
    if not loads:
        return [row]
    left = {*loads, *(value.owner for value in same)}
    region.operations = [each for each in region.operations if each not in left]
    for each in region.walk():
        each.operands = [same.get(value, value) for value in each.operands]
    out: list[Operation] = []
    test = IndexArithmetic(out).numba(operator.lt, *row.operands)
    return [*out, if_then(test, [*loads, row])]


def _is_shared(operation: Operation, inside: set[Value]) -> bool:
    """Return whether an operation loads a number at a place that all iterations share."""
    return (
        operation.name == "array.load"
        and inside.isdisjoint(operation.operands)
        and isinstance(operation.result.type, types.Number | types.Boolean)
    )
