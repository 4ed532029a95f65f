"""Branches, loops and labeled operations, as what hands on values."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

from kerneldsl.ir.operations import Operation, Value

__all__ = ["CONTROL", "LOOPS", "carried_arguments", "ends_of", "given_to", "keep_results"]

#: Operations with regions that run several times.
LOOPS = ("for", "for_each", "while")
#: Operations with results that their regions give.
CONTROL = ("if", "labeled", *LOOPS)


def ends_of(operation: Operation) -> list[Operation]:
    """Return the ``yield`` and ``leave`` operations that give its results."""
    regions = operation.regions
    if operation.name == "while":
        regions = regions[1:]
    found = [region.operations[-1] for region in regions if not region.is_left]
    if operation.name == "labeled":
        found += operation.leaves()
    return found


def keep_results(operation: Operation, kept: Sequence[bool]) -> None:
    """Keep some of the values that an operation gives and carries, in place."""
    count = len(kept)

    def chosen(values: list[Value]) -> list[Value]:
        first = len(values) - count
        return [*values[:first], *compress(values[first:], kept)]

    for end in ends_of(operation):
        end.operands = chosen(end.operands)
    if operation.name in LOOPS:
        operation.operands = chosen(operation.operands)
        for region in operation.regions:
            region.arguments = chosen(region.arguments)
    operation.results = chosen(operation.results)


def given_to(operation: Operation) -> list[Value]:
    """Return the values that a loop carries at first, one for each result."""
    count = len(operation.results)
    return operation.operands[-count:] if count and operation.name in LOOPS else []


def carried_arguments(operation: Operation) -> list[list[Value]]:
    """Return the arguments of each region of a loop that are carried, one for each result."""
    count = len(operation.results)
    if not count or operation.name not in LOOPS:
        return []
    return [region.arguments[-count:] for region in operation.regions]
