"""Apply patterns to a region until none fits: the one rewriter of all passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kerneldsl.ir.operations import TOGETHER, Effect, Operation, Region, Value

__all__ = ["Pattern", "clone_region", "drop_unused", "replace_values", "rewrite"]

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


def clone(operation: Operation, values: dict[Value, Value]) -> Operation:
    """Return a copy of an operation."""
    copy = Operation(
        operation.name,
        [values.get(value, value) for value in operation.operands],
        tuple(value.type for value in operation.results),
        dict(operation.attributes),
        [clone_region(region, values) for region in operation.regions],
        operation.effect,
        operation.place,
    )
    for old, new in zip(operation.results, copy.results, strict=True):
        new.name = old.name
        values[old] = new
    return copy
