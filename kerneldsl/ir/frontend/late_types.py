"""Types of variables that an outer loop finds after an inner one is read.

A variable that a body assigns for a later iteration has no type while the body is read. An inner
loop may carry it, and then has no type for it either.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from numba import types

from kerneldsl.ir.operations import Operation, Region, Value

__all__ = ["set_late_types"]


def set_late_types(body: Region) -> None:
    """Give the values that have no type the one of what they become, or are made of."""
    operations = [each for each in body.walk() if _is_open(each)]
    is_changed = bool(operations)
    while is_changed:
        is_changed = False
        for operation in operations:
            for values in _of_one_type(operation):
                kind = next((value.type for value in values if value.type is not None), None)
                if kind is not None:
                    is_changed |= _set(values, kind)
    for operation in operations:
        # Nothing assigns such a variable, nor reads it.
        _set((*operation.operands, *operation.results, *_arguments(operation)), types.int64)


def _set(values: Iterable[Value], kind: Any) -> bool:
    missing = [value for value in values if value.type is None]
    for value in missing:
        value.type = kind
    return bool(missing)


def _arguments(operation: Operation) -> Iterator[Value]:
    for region in operation.regions:
        yield from region.arguments


def _is_open(operation: Operation) -> bool:
    return any(value.type is None for value in (*operation.operands, *operation.results))


def _of_one_type(operation: Operation) -> Iterator[tuple[Value, ...]]:
    """Return the values of each variable that a structured operation carries or merges."""
    count = len(operation.results)
    if operation.name == "cast":
        yield operation.operands[0], operation.result
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
