"""Drop operations and results that nothing reads, and branches that constant integers rule out."""

from __future__ import annotations

import operator
from typing import Any

from numba import types

from kerneldsl.ir.operations import (
    CONTROL,
    TOGETHER,
    Effect,
    HandedOn,
    Operation,
    Region,
    Value,
    given_to,
    handed_on,
    keep_results,
)
from kerneldsl.ir.recognize import OPPOSITES, constant_number, operands_of, operator_of
from kerneldsl.ir.rewriter import rewrite

__all__ = ["decide_branches", "folded", "simplify"]

_NEEDED = Effect.WRITE | TOGETHER
_ENDS = ("yield", "leave", "unreachable")


def simplify(region: Region) -> None:
    """Drop what nothing reads, also in inner regions, in place."""
    _Needed(region).sweep(region)


class _Needed:
    """Operations and values that an effect needs, or what the region yields."""

    def __init__(self, region: Region) -> None:
        self._around: dict[Operation, Operation] = {}
        #: Values that a branch or loop hands on, with that operation.
        self._handed_on: dict[Value, tuple[Operation, HandedOn]] = {}
        self._operations: set[Operation] = set()
        self._values: set[Value] = set()
        self._pending: list[Operation | Value] = list(region.yielded)
        self._collect(region, None)
        while self._pending:
            found = self._pending.pop()
            if isinstance(found, Value):
                self._need_value(found)
            elif found not in self._operations:
                self._operations.add(found)
                self._need_operation(found)

    def _collect(self, region: Region, around: Operation | None) -> None:
        for number, operation in enumerate(region.operations):
            if around is not None:
                self._around[operation] = around
            if operation.effect & _NEEDED:
                self._pending.append(operation)
            if operation.name == "unreachable" and number:
                # Control would reach this operation without the one before it.
                self._pending.append(region.operations[number - 1])
            for each in handed_on(operation):
                self._handed_on.update(dict.fromkeys(each.targets, (operation, each)))
            for inner in operation.regions:
                self._collect(inner, operation)

    def _need_value(self, value: Value) -> None:
        if value in self._values:
            return
        self._values.add(value)
        found = self._handed_on.get(value)
        if found is not None:
            operation, variable = found
            self._pending += [operation, *variable.sources, *variable.targets]
        elif isinstance(value.owner, Operation):
            self._pending.append(value.owner)

    def _need_operation(self, operation: Operation) -> None:
        around = self._around.get(operation)
        if around is not None:
            self._pending.append(around)
        if operation.name not in CONTROL:
            self._pending += [] if operation.name in _ENDS else operation.operands
            for region in operation.regions:
                self._pending += region.yielded
            return
        count = len(given_to(operation))
        self._pending += operation.operands[: len(operation.operands) - count]
        if operation.name == "while":
            self._pending += operation.regions[0].yielded
        if operation.name == "labeled":
            self._pending += operation.leaves()

    def sweep(self, region: Region) -> None:
        """Drop what is not needed."""
        region.operations = [
            each for each in region.operations if each.name in _ENDS or each in self._operations
        ]
        for operation in region.operations:
            if operation.name in CONTROL:
                self._cut(operation)
            for inner in operation.regions:
                self.sweep(inner)

    def _cut(self, operation: Operation) -> None:
        """Drop what an operation hands on and nothing reads."""
        kept = [value in self._values for value in operation.results]
        if not all(kept):
            keep_results(operation, kept)


#: Arithmetic of int64 that is Python's unless it overflows.
_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)


def decide_branches(region: Region) -> None:
    """Fold conditions on constant integers in a region, in place."""
    rewrite(region, {"numba": folded, "array.extent": _extent, "if": _taken})


def folded(operation: Operation) -> tuple[list[Operation], list[Value]] | None:
    """Return the constant that an operator gives of constants, ``None`` for any other operation.

    Its operands are of int64: Numba takes a uint64 beside an int64 for one, modulo 2**64.
    """
    if len(operation.results) != 1:
        return None
    kind, function = operation.result.type, operator_of(operation)
    values = [_constant(each) for each in operands_of(operation)]
    if None in values:
        return None
    is_truth = function in (operator.not_, bool) or (function in OPPOSITES and len(values) == 2)
    divides = function in (operator.floordiv, operator.mod)
    found: Any = None
    if kind == types.boolean and is_truth:
        found = bool(function(*values))
    elif kind == types.int64 and function in _ARITHMETIC and (values[1] or not divides):
        found = int(function(*values))
    return None if found is None or not -(2**63) <= found < 2**63 else _made(operation, found)


def _extent(operation: Operation) -> tuple[list[Operation], list[Value]] | None:
    """Return the extent of a local array, a constant."""
    array = operation.operands[0].owner
    if not isinstance(array, Operation) or array.name != "local.array":
        return None
    return _made(operation, array.attributes["shape"][operation.attributes["axis"]])


def _made(operation: Operation, value: int) -> tuple[list[Operation], list[Value]]:
    kind = operation.result.type
    made = Operation("const", [], (kind,), {"value": value}, place=operation.place)
    made.result.name = operation.result.name
    return [made], [made.result]


def _constant(value: Value) -> int | None:
    made = value.owner
    if value.type == types.boolean and isinstance(made, Operation) and made.name == "const":
        return int(made.attributes["value"])
    return constant_number(value) if value.type == types.int64 else None


def _taken(operation: Operation) -> tuple[list[Operation], list[Value]] | None:
    """Return what the branch that runs does, if it is known which one."""
    condition = operation.operands[0]
    found = _constant(condition) if condition.type == types.boolean else None
    if found is None:
        return None
    region = operation.regions[0 if found else 1]
    return None if region.is_left else (region.operations[:-1], region.yielded)
