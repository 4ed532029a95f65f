"""Types of variables that an outer loop finds after an inner one is read.

A variable that a body assigns for a later iteration has no type while the body is read. An inner
loop may carry it, and then has no type for it either.
"""

from __future__ import annotations

from collections.abc import Iterator

from kerneldsl.ir.operations import Operation, Region, Value

__all__ = ["set_late_types"]


def set_late_types(body: Region) -> None:
    """Give the values that have no type the one of what they become, or are made of."""
    operations = [each for each in body.walk() if any(map(_is_open, each.results))]
    is_changed = True
    while is_changed:
        is_changed = False
        for operation in operations:
            for values in _of_one_type(operation):
                kind = next((value.type for value in values if value.type is not None), None)
                for value in values:
                    if value.type is None and kind is not None:
                        value.type = kind
                        is_changed = True


def _is_open(value: Value) -> bool:
    return value.type is None


def _of_one_type(operation: Operation) -> Iterator[tuple[Value, ...]]:
    """Return the values of each variable that a structured operation carries or merges."""
    count = len(operation.results)
    if not count or not operation.regions:
        return
    columns = [operation.results]
    if operation.name in ("for", "for_each", "while"):
        columns.append(operation.operands[-count:])
        columns += [region.arguments[-count:] for region in operation.regions]
    elif operation.name not in ("if", "labeled"):
        return
    # What comes before the body of a ``while`` yields the condition.
    ends = operation.regions[1:] if operation.name == "while" else operation.regions
    columns += [region.yielded for region in ends if not region.is_left]
    if operation.name == "labeled":
        columns += [each.operands for each in operation.leaves()]
    yield from zip(*columns, strict=True)
