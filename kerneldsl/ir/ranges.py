"""Intervals of integers, on values: the one analysis that indices and narrow integers need."""

from __future__ import annotations

import operator
from collections.abc import Container, Mapping
from dataclasses import field
from functools import reduce
from types import MappingProxyType
from typing import Any

from numba import types

from kerneldsl.analysis.interval_arithmetic import ANY, Interval, hull, interval_of
from kerneldsl.ir.operations import Function, Label, Operation, Region, Value, given_to
from kerneldsl.ir.recognize import (
    comparison_of,
    constant_number,
    operands_of,
    operator_of,
    parts_of,
)
from kerneldsl.ir.tiles.shapes import OF_BLOCK
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "INTERVALS",
    "WARP_SIZE",
    "Interval",
    "interval_in",
    "limits_of",
    "ranges_of",
    "ranges_of_region",
]

#: Threads of a warp, on each target.
WARP_SIZE = 32
#: Intervals of the results of operations, by name.
INTERVALS: dict[str, Interval] = {
    "grid": (0, 2**62),
    "gridsize": (1, 2**60),
    "laneid": (0, WARP_SIZE - 1),
    "warpsize": (WARP_SIZE, WARP_SIZE),
    **dict.fromkeys(("clz", "ffs", "popc"), (0, 64)),
    **{f"extent.{axis}": (0, 2**62) for axis in "xyz"},
    **{f"{name}.{axis}": (0, 1023) for name in ("threadIdx", "warp") for axis in "xyz"},
    **{f"blockIdx.{axis}": (0, 2**31 - 2) for axis in "xyz"},
    **{f"blockDim.{axis}": (1, 1024) for axis in "xyz"},
    **{f"gridDim.{axis}": (1, 2**31 - 1) for axis in "xyz"},
}
_MIN, _MAX = -(2**63), 2**63 - 1
#: Rounds of a loop before its bounds are widened.
_ROUNDS = 2
#: Integer types in which Numba computes.
_COMPUTED = (types.int64, types.uint64)
#: Lower and upper limits that a comparison adds to each operand, relative to the other one.
_RELATIONS: dict[Any, tuple[tuple[int | None, int | None], tuple[int | None, int | None]]] = {
    operator.lt: ((None, -1), (1, None)),
    operator.le: ((None, 0), (0, None)),
    operator.gt: ((1, None), (None, -1)),
    operator.ge: ((0, None), (None, 0)),
}


def interval_in(known: Mapping[Value, Interval], value: Value) -> Interval:
    """Return the interval of a value: the known one, a constant, or all numbers of its type."""
    found = known.get(value)
    if found is not None:
        return found
    number = constant_number(value)
    if number is not None:
        return number, number
    return limits_of(value.type) if isinstance(value.type, types.Integer) else ANY


def limits_of(kind: types.Integer) -> Interval:
    """Return the least and the largest number of a type."""
    return int(kind.minval), int(kind.maxval)


def ranges_of(
    function: Function,
    of_names: Mapping[str, Interval] = INTERVALS,
    *,
    overflowing: Container[Value] | None = None,
    rounds: int | None = None,
) -> dict[Value, Interval]:
    """Return intervals of the integers of a function.

    `of_names` are those of operations by their names, such as ``"threadIdx.x"``. If
    `overflowing` is given, no other signed arithmetic of 64 bits is taken to overflow, and no other
    conversion. With `rounds` no loop is taken to run more often, so that sums have bounds.
    """
    return ranges_of_region(function.body, of_names, overflowing=overflowing, rounds=rounds)


def ranges_of_region(
    region: Region,
    of_names: Mapping[str, Interval] = INTERVALS,
    *,
    overflowing: Container[Value] | None = None,
    rounds: int | None = None,
    given: Mapping[Value, Interval] = MappingProxyType({}),
) -> dict[Value, Interval]:
    """Return intervals of the integers of a region, as :func:`ranges_of` does.

    `given` are those of values from outside.
    """
    walk = _Walk(of_names, overflowing, rounds, {**given})
    walk.region(region)
    return walk.known


@dataclass(eq=False)
class _Walk:
    of_names: Mapping[str, Interval]
    overflowing: Container[Value] | None
    rounds: int | None
    known: dict[Value, Interval] = field(default_factory=dict)
    #: Intervals of the operands of ``leave`` operations, by label.
    leaves: dict[Label, list[list[Interval]]] = field(default_factory=dict)

    def get(self, value: Value) -> Interval:
        return interval_in(self.known, value)

    def region(self, region: Region) -> None:
        for operation in region.operations:
            self.operation(operation)

    def operation(self, operation: Operation) -> None:
        match operation.name:
            case "const":
                value = operation.attributes["value"]
                if type(value) is int:
                    self.known[operation.result] = (value, value)
            case "array.size" | "array.extent":
                self.known[operation.result] = self.of_names.get(operation.name, (0, _MAX))
            case "numba":
                self.numba(operation)
            case "cast":
                self.cast(operation)
            case "if":
                for region in operation.regions:
                    self.region(region)
                inner = [region for region in operation.regions if not region.is_left]
                self.join(operation, [self.yielded(region) for region in inner])
            case "labeled":
                (region,) = operation.regions
                ends = self.leaves[operation.attributes["label"]] = []
                self.region(region)
                if not region.is_left:
                    ends.append(self.yielded(region))
                self.join(operation, ends)
            case "leave":
                found = [self.get(value) for value in operation.operands]
                self.leaves.setdefault(operation.attributes["label"], []).append(found)
            case "while":
                before, body = operation.regions
                self.loop(operation, operation.operands, body, body.arguments, (before, body))
                for result, argument in zip(operation.results, before.arguments, strict=True):
                    self.set(result, self.get(argument))
            case "for":
                (body,) = operation.regions
                start, stop, step = map(self.get, operation.operands[:3])
                if step[0] >= 0:
                    self.known[body.arguments[0]] = (start[0], max(stop[1] - 1, start[0]))
                elif step[1] < 0:
                    self.known[body.arguments[0]] = (min(stop[0] + 1, start[1]), start[1])
                self.counted(operation)
            case "row":
                (body,) = operation.regions
                low, high = map(self.get, operation.operands)
                self.known[body.arguments[0]] = (low[0], max(high[1] - 1, low[0]))
                self.region(body)
            case "for_each":
                values = operation.attributes.get("values")
                (body,) = operation.regions
                if values:
                    self.known[body.arguments[0]] = (min(values), max(values))
                self.counted(operation)
            case name:
                # Functions of elements of tiles get the indices of some axes last.
                for place, axis in enumerate(reversed(operation.attributes.get("axes", ())), 1):
                    index = operation.regions[0].arguments[-place]
                    extent = operation.attributes["shape"][axis]
                    self.known[index] = (0, extent - 1 if (extent,) != OF_BLOCK else _MAX)
                for region in operation.regions:
                    self.region(region)
                if name in self.of_names:
                    self.known[operation.result] = self.of_names[name]

    def yielded(self, region: Region) -> list[Interval]:
        return [self.get(value) for value in region.yielded]

    def join(self, operation: Operation, ends: list[list[Interval]]) -> None:
        """Set the results of an operation to what its ends give."""
        for number, result in enumerate(operation.results):
            found = [end[number] for end in ends]
            if found:
                self.set(result, reduce(hull, found))

    def counted(self, operation: Operation) -> None:
        (body,) = operation.regions
        arguments = body.arguments[len(body.arguments) - len(operation.results) :]
        self.loop(operation, given_to(operation), body, arguments, (body,))
        for result, argument in zip(operation.results, arguments, strict=True):
            self.set(result, self.get(argument))

    def loop(
        self,
        operation: Operation,
        given: list[Value],
        body: Region,
        arguments: list[Value],
        regions: tuple[Region, ...],
    ) -> None:
        entering = [self.get(value) for value in given]
        found, settled = entering, 0
        for turn in range(64):
            ends = self.turn(operation, found, body, arguments, regions)
            if ends is None:
                return
            new = [hull(old, end) for old, end in zip(found, ends, strict=True)]
            if new == found:
                # A second pass from the fixed point narrows bounds that were widened too far: one
                # iteration from an upper bound is an upper bound.
                narrower = [hull(one, end) for one, end in zip(entering, ends, strict=True)]
                if narrower == found or settled == _ROUNDS:
                    return
                found, settled = narrower, settled + 1
                continue
            if turn == _ROUNDS and self.rounds is not None:
                sums = self.summed(found, new, arguments)
                ends = self.turn(operation, sums, body, arguments, regions)
                if ends is not None and all(map(_is_sum, found, new, sums, ends)):
                    return
            if turn >= _ROUNDS:
                new = list(map(_widen, found, new, arguments))
            found = new
        raise AssertionError("intervals of a loop do not settle")

    def turn(
        self,
        operation: Operation,
        found: list[Interval],
        body: Region,
        arguments: list[Value],
        regions: tuple[Region, ...],
    ) -> list[Interval] | None:
        """Return the intervals at the end of a loop's body from those at its start."""
        for argument, interval in zip(arguments, found, strict=True):
            self.set(argument, interval)
        if operation.name == "while":
            for value, interval in zip(regions[0].arguments, found, strict=True):
                self.set(value, interval)
            self.region(regions[0])
            self.refine(regions[0], arguments)
        self.region(body)
        return None if body.is_left else [self.get(value) for value in body.yielded]

    def summed(
        self, found: list[Interval], new: list[Interval], arguments: list[Value]
    ) -> list[Interval]:
        """Return intervals of variables to which each round adds what the last one has added."""
        assert self.rounds is not None
        sums = []
        for old, one, argument in zip(found, new, arguments, strict=True):
            low, high = _widen(old, one, argument)
            most = one[1] + self.rounds * (one[1] - old[1])
            sums.append((low, min(high, most)))
        return sums

    def refine(self, before: Region, arguments: list[Value]) -> None:
        """Bound the variables in the body of a ``while`` by its condition."""
        for value, argument in zip(before.arguments, arguments, strict=True):
            self.known.pop(argument, None)
            self.set(argument, self.get(value))
        for condition, truth in parts_of(before.yielded[0], True):
            function, operands = comparison_of(condition, truth) or (None, [])
            if function not in _RELATIONS:
                continue
            relation = _RELATIONS[function]
            for one, other, (low, high) in zip(operands, operands[::-1], relation, strict=True):
                if one not in before.arguments:
                    continue
                argument = arguments[before.arguments.index(one)]
                if not isinstance(other.type, types.Integer):
                    continue
                own, bound = self.get(argument), self.get(other)
                least = own[0] if low is None else max(own[0], bound[0] + low)
                most = own[1] if high is None else min(own[1], bound[1] + high)
                if least <= most:
                    self.set(argument, (least, most))

    def set(self, value: Value, interval: Interval) -> None:
        if isinstance(value.type, types.Integer):
            self.known[value] = interval

    def cast(self, operation: Operation) -> None:
        (source,) = operation.operands
        kind = operation.result.type
        if not isinstance(kind, types.Integer):
            return
        found = self.converted(source, kind)
        if self.overflowing is not None and operation.result not in self.overflowing:
            low, high = self.get(source)
            if isinstance(source.type, types.Integer) and low <= found[1] and high >= found[0]:
                found = max(low, found[0]), min(high, found[1])
        self.known[operation.result] = found

    def converted(self, value: Value, kind: Any) -> Interval:
        """Return the interval of a value that is converted to another type."""
        low, high = limits_of(kind)
        if isinstance(value.type, types.Boolean):
            return 0, 1
        if isinstance(value.type, types.Integer):
            found = self.get(value)
            if low <= found[0] and found[1] <= high:
                return found
        return low, high

    def numba(self, operation: Operation) -> None:
        if len(operation.results) != 1 or operation.result.type not in _COMPUTED:
            return
        kind = operation.result.type
        lowest, highest = limits_of(kind)
        operands = operands_of(operation)
        if not all(isinstance(v.type, types.Integer | types.Boolean) for v in operands):
            return
        function = operator_of(operation)
        if function in (min, max) or len(operands) == 1:
            found = interval_of(function, [self.get(value) for value in operands])
            if len(operands) == 1:
                found = _of_small(found, operands[0].type)
        else:
            # Two numbers meet in the type of the result.
            found = interval_of(function, [self.converted(v, kind) for v in operands])
        low, high = found
        if low < lowest or high > highest:
            # An operation that may overflow may have any result.
            may_overflow = self.overflowing is None or operation.result in self.overflowing
            if may_overflow or not kind.signed:
                found = lowest, highest
            else:
                found = max(min(low, _MAX), _MIN), max(min(high, _MAX), _MIN)
        self.known[operation.result] = found


def _of_small(found: Interval, kind: Any) -> Interval:
    """Return the interval of an operation of one number, which is computed in the number's type."""
    if kind in (types.int8, types.int16, types.int32) and found[1] > kind.maxval:
        return min(found[0], int(kind.minval)), int(kind.maxval)
    return found


def _is_sum(old: Interval, new: Interval, start: Interval, end: Interval) -> bool:
    """Return whether a round adds no more to an interval than an earlier one did."""
    return start[0] <= end[0] and end[1] <= start[1] + new[1] - old[1]


def _widen(old: Interval, new: Interval, value: Value) -> Interval:
    low = old[0] if new[0] == old[0] else (0 if new[0] >= 0 else _MIN)
    most = int(types.uint64.maxval) if value.type == types.uint64 else _MAX
    return low, old[1] if new[1] == old[1] else most
