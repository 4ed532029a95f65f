"""Ranges of unsigned integers: the type of their numbers, and the length of a range of uint64.

Start and stop decide the type, as operands do: ``docs/adr/0031-integers-stay-integers.md``. The
loops of the IR count in signed integers. A range of uint64 is counted from 0 instead. Its length
is at most the largest int64, which no loop reaches.
"""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from numba import types

from kerneldsl.ir.frontend.origins import Origin, joined
from kerneldsl.ir.frontend.outside_calls import call_function
from kerneldsl.ir.frontend.reader import Reader, constant_of
from kerneldsl.ir.operations import Operation, Value

__all__ = ["converted_bounds", "length_of_range"]

_SIGNED, _WIDE = types.int64, types.uint64
_MOST = int(_SIGNED.maxval)


def converted_bounds(
    reader: Reader, found: list[Value]
) -> tuple[list[Value], tuple[types.Type, ...]]:
    """Return the arguments of a ``range``, and the types by which Numba chooses its type."""
    bounds, origins = found[:2], reader.origins
    if reduce(joined, map(origins.of, bounds)) is Origin.WIDE and all(
        _is_unsigned(each) or origins.is_converted(each) for each in bounds
    ):
        wide = [_as_wide(reader, each) for each in bounds]
        return [*wide, *found[2:]], (_WIDE,) * len(found)
    signs = {each.type.signed for each in found if isinstance(each.type, types.Integer)}
    # Numba takes an int32 beside an unsigned number for the type of both.
    kinds = (_SIGNED,) * len(found) if len(signs) > 1 else tuple(each.type for each in found)
    return found, kinds


def _as_wide(reader: Reader, value: Value) -> Value:
    if reader.origins.is_converted(value):
        return reader.origins.convert(reader, value)
    return reader.cast(value, _WIDE)


def _is_unsigned(value: Value) -> bool:
    return isinstance(value.type, types.Integer) and not value.type.signed


def length_of_range(reader: Reader, start: Value, stop: Value, step: Value) -> Value | None:
    """Return the length of a range of uint64, at most the largest int64.

    Without a bound that the program makes a uint64, or with small constants, return ``None``: the
    range can be counted in signed integers.
    """
    is_wide = all(reader.origins.of(each) is Origin.WIDE for each in (start, stop))
    numbers = constant_of(start), constant_of(stop)
    if not is_wide or all(each is not None and 0 <= each <= _MOST for each in numbers):
        return None
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
