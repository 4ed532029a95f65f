"""Find integers with a high half that nothing reads: only their low 32 bits matter."""

from __future__ import annotations

import operator
from collections import defaultdict

from numba import types

from kerneldsl.ir.operations import (
    CONTROL,
    Operation,
    Region,
    Value,
    carried_arguments,
    ends_of,
    given_to,
)
from kerneldsl.ir.recognize import operator_of

__all__ = ["low_bits_only"]

_WIDTH = 32
_LONG = (types.int64, types.uint64)
#: Operators with low bits that depend on the low bits of their operands alone.
_MODULAR = frozenset(
    getattr(operator, name)
    for each in ("add", "sub", "mul", "and_", "or_", "xor")
    for name in (each, f"i{each.rstrip('_')}")
) | {operator.neg, operator.invert}


def low_bits_only(region: Region) -> set[Value]:
    """Return the integers of 64 bits in a region with a high half that is never read."""
    needs: dict[Value, list[Value]] = defaultdict(list)
    whole: list[Value] = []
    found: set[Value] = set()

    def hand_on(source: Value, target: Value) -> None:
        """Say that the high half of a value is read if that of another one is."""
        needs[target].append(source)

    for operation in region.walk():
        values = [*operation.results, *(v for each in operation.regions for v in each.arguments)]
        found.update(value for value in values if value.type in _LONG)
        whole += _read_whole(operation, hand_on)
    whole += region.yielded
    while whole:
        value = whole.pop()
        found.discard(value)
        whole += needs.pop(value, [])
    return found


def _read_whole(operation: Operation, hand_on: object) -> list[Value]:
    """Return the operands that an operation reads whole; say what else it depends on."""
    assert callable(hand_on)
    if operation.name in ("yield", "leave"):
        return []  # what they lead to says it
    if operation.name in CONTROL:
        carried = carried_arguments(operation)
        count = len(given_to(operation))
        for number, result in enumerate(operation.results):
            same = [result, *(arguments[number] for arguments in carried)]
            sources = [end.operands[number] for end in ends_of(operation)]
            sources += given_to(operation)[number : number + 1]
            for one in same:
                for other in (*same, *sources):
                    hand_on(other, one)
        tests = operation.regions[0].yielded[:1] if operation.name == "while" else []
        return [*operation.operands[: len(operation.operands) - count], *tests]
    if operation.name == "cast" and _is_narrow(operation.result):
        return []
    if operator_of(operation) in _MODULAR and operation.result.type in _LONG:
        for value in operation.operands:
            hand_on(value, operation.result)
        return []
    return [*operation.operands, *(v for each in operation.regions for v in each.yielded)]


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, types.Integer) and value.type.bitwidth <= _WIDTH
