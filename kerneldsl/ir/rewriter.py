"""Make operations, and apply patterns to a region until none fits, for all passes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from numba import types

from kerneldsl.ir.operations import TOGETHER, Effect, Operation, Region, Value
from kerneldsl.ir.typing import Typing

__all__ = [
    "Builder",
    "Pattern",
    "clone",
    "clone_inside",
    "clone_region",
    "drop_unused",
    "if_then",
    "replace_operations",
    "replace_values",
    "rewrite",
]

#: Returns the operations and the values that take the place of an operation and its results, or
#: ``None`` if it does not fit.
Pattern = Callable[[Operation], tuple[list[Operation], list[Value]] | None]

_NEEDED = Effect.WRITE | Effect.LEAVE | TOGETHER


def rewrite(region: Region, patterns: Mapping[str, Pattern]) -> None:
    """Rewrite the operations of a region and of inner ones, by the names of operations."""
    _rewrite(region, patterns, {})


def _rewrite(region: Region, patterns: Mapping[str, Pattern], values: dict[Value, Value]) -> None:
    out: list[Operation] = []
    pending = region.operations[::-1]
    while pending:
        operation = pending.pop()
        if values:
            operands = operation.operands
            for number, value in enumerate(operands):
                while value in values:  # what takes its place may be rewritten, too
                    value = operands[number] = values[value]
        pattern = patterns.get(operation.name)
        found = pattern(operation) if pattern is not None else None
        if found is None:
            for inner in operation.regions:
                _rewrite(inner, patterns, values)
            out.append(operation)
            continue
        made, results = found
        pending.extend(made[::-1])
        values.update(zip(operation.results, results, strict=True))
    region.operations = out


def replace_operations(
    region: Region, write: Callable[[Operation], list[Operation] | None]
) -> None:
    """Replace operations of a region and of inner ones by those that a function returns, in place.

    An operation that it returns ``None`` of stays, and those in its regions are replaced.
    """
    out: list[Operation] = []
    for operation in region.operations:
        found = write(operation)
        if found is None:
            for inner in operation.regions:
                replace_operations(inner, write)
        out += [operation] if found is None else found
    region.operations = out


def replace_values(region: Region, values: Mapping[Value, Value]) -> None:
    """Replace values wherever a region reads them."""
    for operation in region.walk():
        operation.operands = [values.get(value, value) for value in operation.operands]


def drop_unused(region: Region) -> None:
    """Drop operations without effects if nothing reads their results."""
    used = {value for operation in region.walk() for value in operation.operands}

    def visit(region: Region) -> None:
        kept = []
        for operation in reversed(region.operations):
            is_needed = (
                operation.name == "yield"
                or operation.effects() & _NEEDED
                or any(value in used for value in operation.results)
            )
            if is_needed:
                kept.append(operation)
                for inner in operation.regions:
                    visit(inner)
        region.operations = kept[::-1]

    visit(region)


def clone_region(region: Region, values: dict[Value, Value]) -> Region:
    """Return a copy of a region; `values` maps values of the original, and is extended."""
    copy = Region(tuple(value.type for value in region.arguments))
    for old, new in zip(region.arguments, copy.arguments, strict=True):
        new.name = old.name
        values[old] = new
    copy.operations = [clone(operation, values) for operation in region.operations]
    return copy


def clone_inside(region: Region, values: dict[Value, Value]) -> Region:
    """Return a copy of the operations of a region; `values` has what its arguments are."""
    return Region((), [clone(operation, values) for operation in region.operations])


def clone(
    operation: Operation, values: dict[Value, Value], regions: list[Region] | None = None
) -> Operation:
    """Return a copy of an operation, with copies of its regions if none are given."""
    if regions is None:
        regions = [clone_region(region, values) for region in operation.regions]
    copy = Operation(
        operation.name,
        [values.get(value, value) for value in operation.operands],
        tuple(value.type for value in operation.results),
        dict(operation.attributes),
        regions,
        operation.effect,
        operation.place,
    )
    for old, new in zip(operation.results, copy.results, strict=True):
        new.name = old.name
        values[old] = new
    return copy


def if_then(condition: Value, yes: Iterable[Operation], no: Iterable[Operation] = ()) -> Operation:
    """Return a branch without results."""
    return Operation("if", [condition], (), None, [Region.of(yes), Region.of(no)])


class Builder:
    """Appends operations to a list, each typed as the front end types it.

    - `typing`: types of operators.
    - `operations`: the list, by default a new one.
    """

    def __init__(self, typing: Typing, operations: list[Operation] | None = None) -> None:
        self.typing = typing
        self.operations: list[Operation] = [] if operations is None else operations
        #: Source place of the operations.
        self.place: Any = None

    def operation(
        self,
        name: str,
        operands: list[Value],
        results: tuple[Any, ...] = (),
        attributes: dict[str, Any] | None = None,
        regions: list[Region] | None = None,
        effect: Effect = Effect.NONE,
    ) -> Operation:
        """Append an operation, and return it."""
        made = Operation(
            name, operands, results, attributes, regions, effect=effect, place=self.place
        )
        self.operations.append(made)
        return made

    def add(self, name: str, *operands: Value, kind: Any = types.int64) -> Value:
        """Append an operation with one result, and return the result."""
        return self.operation(name, [*operands], (kind,)).result

    def constant(self, value: Any, kind: Any = types.int64) -> Value:
        return self.operation("const", [], (kind,), {"value": value}).result

    def numba(self, function: Any, *operands: Value) -> Value:
        """Apply one of Python's operators."""
        signature = self.typing.operator(function, tuple(value.type for value in operands))
        attributes = {"function": function, "signature": signature}
        return self.operation("numba", [*operands], (signature.return_type,), attributes).result

    def cast(self, value: Value, kind: Any = types.int64) -> Value:
        return value if value.type == kind else self.add("cast", value, kind=kind)
