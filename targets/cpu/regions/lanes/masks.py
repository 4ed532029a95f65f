"""Find the loops that threads leave one by one and that a strip of them may run under a mask.

A lane that has left goes on computing unused values: a body of such a loop touches no memory and
calls only arithmetic.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Value
from kerneldsl.ir.recognize import constant_number, operands_of, operator_of
from targets.cpu.math.vector.define import FUNCTIONS
from targets.cpu.regions.lanes.values import LaneValues, leaves_operation

__all__ = ["LANES", "MaskedLoop", "masked_loop"]

#: Threads of a strip: one vector of the widest processors for 32-bit values.
LANES = 16
_PLAIN = frozenset(
    {
        *("const", "cast", "undefined", "tuple.make", "tuple.member", "array.size"),
        *("array.extent", "yield", "leave", "unreachable", "if", "labeled", "for_each"),
    }
)
_DIVISIONS = (operator.floordiv, operator.ifloordiv, operator.mod, operator.imod)
_OPERATORS = frozenset(value for value in vars(operator).values() if callable(value))
#: What LLVM has vectors of beside :data:`FUNCTIONS`.
_INSTRUCTIONS = frozenset(
    {
        *("sqrt", "fabs", "absolute", "copysign", "floor", "ceil", "trunc", "rint"),
        *("isnan", "isinf", "isfinite", "minimum", "maximum", "fmin", "fmax"),
        *("min", "max", "abs", "int", "float", "bool"),
    }
)


class MaskedLoop(NamedTuple):
    """A loop that lanes leave one by one."""

    loop: Operation
    #: What a ``break`` of the loop leaves.
    labeled: Operation | None
    #: What each lane does after the loop in it.
    after: list[Operation]


def masked_loop(operation: Operation, values: LaneValues) -> MaskedLoop | None:
    """Return a loop that threads leave one by one, if its body is arithmetic alone."""
    found = _loop_of(operation)
    if found is None:
        return None
    loop = found.loop
    if not (values.is_divided(loop) and all(map(_is_number, [*loop.results, *operation.results]))):
        return None
    if loop.name == "for" and not _is_counted(loop):
        return None
    if not all(_is_plain(each) for region in loop.regions for each in region.walk()):
        return None
    return found if all(_is_plain(each) for each in found.after) else None


def _loop_of(operation: Operation) -> MaskedLoop | None:
    if operation.name in ("for", "while"):
        is_left = leaves_operation(operation)
        return None if is_left else MaskedLoop(operation, None, [])
    if operation.name != "labeled" or operation.regions[0].is_left or leaves_operation(operation):
        return None
    loop, *after = operation.regions[0].operations[:-1] or [operation]
    leaves = set(operation.leaves())
    if loop.name not in ("for", "while") or not leaves <= set(loop.walk()):
        return None
    if any(each.name in ("for", "while", "for_each") for r in loop.regions for each in r.walk()):
        return None
    return MaskedLoop(loop, operation, after)


def _is_counted(loop: Operation) -> bool:
    """Return whether a loop counts in int64, up or down."""
    return loop.operands[0].type == types.int64 and bool(constant_number(loop.operands[2]))


def _is_number(value: Value) -> bool:
    return isinstance(value.type, types.Integer | types.Float | types.Boolean)


def _is_plain(operation: Operation) -> bool:
    """Return whether a lane that has left may perform an operation, and LLVM has vectors of it."""
    if operation.effect & ~Effect.LEAVE:
        return False
    if operation.name in _PLAIN:
        return True
    if operation.name != "numba":
        use = operation.attributes.get("use")
        return use is None or not use.intrinsic.is_barrier
    function = operator_of(operation)
    if function in _DIVISIONS:
        divisor = operands_of(operation)[-1]
        is_float = isinstance(operation.result.type, types.Float)
        return not is_float and bool(constant_number(divisor))
    if function in _OPERATORS:
        return function is not operator.matmul
    name = getattr(function, "__name__", str(function))
    return name in FUNCTIONS or name in _INSTRUCTIONS or isinstance(function, types.NumberClass)
