"""Decide conditions on constant integers, and leave out the branches that they rule out.

A kernel with compile-time parameters has ``if width * 2 > 4:``. A local array or a loop in a branch
that never runs would keep rewrites from what else the kernel does.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.recognize import operands_of, operator_of
from kerneldsl.ir.rewriter import rewrite

__all__ = ["decide_branches"]

_COMPARISONS = (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne)
_ARITHMETIC = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
#: Arithmetic within it is the same in Python and in int64.
_SMALL = 2**31


def decide_branches(region: Region) -> None:
    """Fold conditions on constant integers in a region, in place."""
    rewrite(region, {"numba": _folded, "array.extent": _extent, "if": _taken})


def _folded(operation: Operation) -> tuple[list[Operation], list[Value]] | None:
    if len(operation.results) != 1:
        return None
    kind, function = operation.result.type, operator_of(operation)
    values = [_constant(each) for each in operands_of(operation)]
    if None in values:
        return None
    is_truth = function in (operator.not_, bool) or (function in _COMPARISONS and len(values) == 2)
    divides = function in (operator.floordiv, operator.mod)
    found: Any = None
    if kind == types.boolean and is_truth:
        found = bool(function(*values))
    elif kind == types.int64 and function in _ARITHMETIC and (values[1] or not divides):
        found = int(function(*values))
    if found is None or not -_SMALL < found < _SMALL:
        return None
    return _made(operation, found)


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
    if not isinstance(made, Operation) or made.name != "const":
        return None
    if value.type not in (types.int64, types.boolean):
        return None
    found = made.attributes["value"]
    return int(found) if isinstance(found, int) and -_SMALL < found < _SMALL else None


def _taken(operation: Operation) -> tuple[list[Operation], list[Value]] | None:
    """Return what the branch that runs does, if it is known which one."""
    condition = operation.operands[0]
    found = _constant(condition) if condition.type == types.boolean else None
    if found is None:
        return None
    region = operation.regions[0 if found else 1]
    return None if region.is_left else (region.operations[:-1], region.yielded)
