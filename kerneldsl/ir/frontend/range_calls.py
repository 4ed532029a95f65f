"""The heads of ``range`` loops: the type of their numbers, and the length of a range of uint64.

Start and stop decide the type, as operands do: ``docs/adr/0031-integers-stay-integers.md``. The
loops of the IR count in signed integers. A range of uint64 is counted from 0 instead. Its count is
at most the largest int64, which no loop reaches.
"""

from __future__ import annotations

import ast
import operator
from functools import reduce
from typing import Any, NamedTuple

from numba import types

from kerneldsl.errors import KernelTypingError
from kerneldsl.frontend.expressions import written
from kerneldsl.ir.frontend.origins import Origin, joined
from kerneldsl.ir.frontend.outside_calls import call_function
from kerneldsl.ir.frontend.reader import Reader, constant_of
from kerneldsl.ir.operations import Operation, Value

__all__ = ["Range", "read_range"]

_SIGNED, _WIDE = types.int64, types.uint64
_MOST = int(_SIGNED.maxval)


class Range(NamedTuple):
    """A range of integers of a type."""

    start: Value
    stop: Value
    step: Value
    kind: Any
    #: The count of its numbers, if start and stop are uint64 and not known to be small.
    length: Value | None


def read_range(reader: Reader, call: ast.Call, args: list[ast.expr]) -> Range:
    """Read the arguments of a ``range``."""
    found = [reader.number(each) for each in args]
    for node, value in zip(args, found, strict=True):
        if isinstance(value.type, types.Float):
            raise _float_refusal(reader, node, value)
    is_wide = _is_wide(reader, found[:2])
    signature = reader.typing.call(reader.typing.function(range), _kinds(found, is_wide=is_wide))
    if reader.notes is not None:
        reader.notes.add_type(call, signature.return_type)
    kind = signature.return_type.dtype
    if is_wide:
        found[:2] = [_as_wide(reader, each) for each in found[:2]]
    if len(found) == 1:
        found.insert(0, reader.constant(0, kind))
    if len(found) == 2:
        found.append(reader.constant(1, kind))
    is_small = all(_is_small(each) for each in found[:2])
    length = _length(reader, *found) if is_wide and not is_small else None
    start, stop, step = reader.casts(found, [kind] * 3)
    return Range(start, stop, step, kind, length)


def _is_wide(reader: Reader, bounds: list[Value]) -> bool:
    """Return whether the numbers of a range are uint64 as the program names that type."""
    origins = reader.origins
    return reduce(joined, map(origins.of, bounds)) is Origin.WIDE and all(
        _is_unsigned(each) or origins.is_converted(each) for each in bounds
    )


def _kinds(found: list[Value], *, is_wide: bool) -> tuple[Any, ...]:
    """Return the types of arguments, by which Numba chooses the type of a range."""
    if is_wide:
        return (_WIDE,) * len(found)
    signs = {each.type.signed for each in found if isinstance(each.type, types.Integer)}
    # Numba takes an int32 beside an unsigned number for the type of both.
    return (_SIGNED,) * len(found) if len(signs) > 1 else tuple(each.type for each in found)


def _as_wide(reader: Reader, value: Value) -> Value:
    if reader.origins.is_converted(value):
        return reader.origins.convert(reader, value)
    return reader.cast(value, _WIDE)


def _is_unsigned(value: Value) -> bool:
    return isinstance(value.type, types.Integer) and not value.type.signed


def _is_small(value: Value) -> bool:
    number = constant_of(value)
    return number is not None and 0 <= number <= _MOST


def _length(reader: Reader, start: Value, stop: Value, step: Value) -> Value:
    """Return the length of a range of uint64, at most the largest int64."""
    given = constant_of(step)
    distance, size = (
        _distance_by(reader, start, stop, step)
        if given is None
        else _distance_by_constant(reader, start, stop, given)
    )
    if constant_of(size) != 1:
        rest = reader.numba(operator.mod, [distance, size])
        distance = reader.numba(operator.floordiv, [distance, size])
        is_inside = reader.numba(operator.ne, [rest, reader.constant(0, _WIDE)])
        distance = reader.numba(operator.add, [distance, reader.cast(is_inside, _WIDE)])
    return reader.cast(_call(reader, min, distance, reader.constant(_MOST, _WIDE)), _SIGNED)


def _distance_by_constant(
    reader: Reader, start: Value, stop: Value, step: int
) -> tuple[Value, Value]:
    """Return the distance in the direction of a step, 0 if it leads away, and the step's size."""
    size = reader.constant(max(abs(step), 1), _WIDE)
    if step == 0:
        return reader.constant(0, _WIDE), size
    return _distance(reader, *((start, stop) if step > 0 else (stop, start))), size


def _distance_by(reader: Reader, start: Value, stop: Value, step: Value) -> tuple[Value, Value]:
    zero = reader.constant(0, step.type)
    is_up = reader.numba(operator.gt, [step, zero])
    distance = _if(reader, is_up, _distance(reader, start, stop))
    size = step
    if step.type.signed:
        is_down = reader.numba(operator.lt, [step, zero])
        down = _if(reader, is_down, _distance(reader, stop, start))
        distance = reader.numba(operator.add, [distance, down])
        size = call_function(reader, reader.typing.function(abs), [step], {})
    return distance, _call(reader, max, reader.cast(size, _WIDE), reader.constant(1, _WIDE))


def _distance(reader: Reader, low: Value, high: Value) -> Value:
    """Return the distance between two uint64, 0 if they are in the other order."""
    if constant_of(low) == 0:
        return high
    return reader.numba(operator.sub, [_call(reader, max, low, high), low])


def _if(reader: Reader, test: Value, number: Value) -> Value:
    """Return a uint64 if a test holds, else 0."""
    return reader.numba(operator.mul, [number, reader.cast(test, _WIDE)])


def _call(reader: Reader, function: Any, one: Value, two: Value) -> Value:
    found: Value = call_function(reader, reader.typing.function(function), [one, two], {})
    assert isinstance(found.owner, Operation)
    found.owner.attributes["bounds_range"] = True
    return found


def _float_refusal(reader: Reader, node: ast.expr, value: Value) -> KernelTypingError:
    """Return the error for a float in ``range``, which Numba cuts off without a word."""
    unit = reader.unit
    text = written(node, unit)
    remedy = f"Write int({text})"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        remedy += f", or {written(node.left, unit)} // {written(node.right, unit)}"
    return KernelTypingError(
        f"{unit.qualname} gives {text}, a {value.type}, to range",
        where=unit.locate(node),
        value=text,
        limit="range takes integers, as in Python",
        remedy=remedy,
    )
