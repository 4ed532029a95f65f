"""Live ranges of the tiles of a function: intervals of positions in its text.

A tile that was made before a branch may have its last uses there. Then it is alive in each region
until the last use in the region.

A tile that a loop reads, and that was made before the loop, is alive until the end of the loop. The
argument of a loop is dead between its last use in an iteration and the end of it. The result
of a branch or loop begins at the end of its regions.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import NamedTuple

from kerneldsl.ir.operations import CONTROL, LOOPS, Function, Operation, Region, Value, ends_of
from kerneldsl.lowering.types import NumbaTile

__all__ = ["LiveRanges", "is_tile"]

#: Positions within one operation: it reads, it writes, its yielded values are handed on, it ends.
_READ, _WRITTEN, _HANDED_ON, _AFTER, _STEP = 0, 1, 2, 3, 4


def is_tile(value: Value) -> bool:
    return isinstance(value.type, NumbaTile)


class _Branched(NamedTuple):
    """A region of a branch."""

    branch: Operation
    #: Position of the branch, and of the begin of the region.
    branch_at: int
    start: int
    region: Region


class LiveRanges:
    """The intervals of each tile of a function."""

    def __init__(self, function: Function) -> None:
        #: Each from its definition to the last use.
        self.intervals: dict[Value, list[list[int]]] = {}
        #: The regions of branches around each interval, outermost first.
        self._regions: dict[Value, list[list[_Branched]]] = {}
        self._position = 0
        self._around: list[_Branched] = []
        #: The end of a region to the values that it gives.
        self._results: dict[Operation, list[Value]] = {}
        self._region(function.body)

    def meet(self, one: Value, two: Value, *, may_touch: bool) -> bool:
        """Return whether two tiles are alive at the same time.

        If they may touch, an operation may read the one while it writes the other.
        """
        before = 0 if may_touch else _WRITTEN

        def from_(interval: list[int]) -> int:
            start = interval[0]
            return start - before if start % _STEP == _WRITTEN else start

        return any(
            from_(a) <= b[1] and from_(b) <= a[1]
            for a, b in product(self.intervals[one], self.intervals[two])
        )

    def _define(self, values: Iterable[Value], when: int) -> None:
        at = self._position + when
        for value in filter(is_tile, values):
            self._begin(value, at, self._around)

    def _begin(self, value: Value, at: int, around: list[_Branched]) -> None:
        self.intervals.setdefault(value, []).append([at, at])
        self._regions.setdefault(value, []).append(list(around))

    def _use(self, values: Iterable[Value]) -> None:
        for value in filter(is_tile, values):
            self._extend(value)

    def _extend(self, value: Value) -> None:
        """Let a tile be alive until here: also before, and in all of a branch that has ended."""
        intervals, regions = self.intervals[value], self._regions[value]
        number = len(intervals) - 1
        while regions[number] != self._around[: len(regions[number])]:
            number -= 1
        depth = len(regions[number])
        beside = [each[depth : depth + 1] for each in regions[number + 1 :]]
        inside = self._around[depth : depth + 1]
        if not inside or any(each and each[0].branch is not inside[0].branch for each in beside):
            del intervals[number + 1 :], regions[number + 1 :]
        if not inside:
            intervals[number][1] = self._position + _READ
            return
        for deeper in range(depth, len(self._around)):
            region = self._around[deeper]
            intervals[number][1] = max(intervals[number][1], region.branch_at + _READ)
            self._begin(value, region.start, self._around[: deeper + 1])
            number = len(intervals) - 1
        intervals[-1][1] = self._position + _READ

    def _region(self, region: Region) -> None:
        for operation in region.operations:
            self._position += _STEP
            self._use(operation.operands)
            self._define(self._results.get(operation, ()), _HANDED_ON)
            if operation.name in CONTROL:
                if any(is_tile(value) for inner in operation.walk() for value in _values(inner)):
                    self._inner(operation)
            else:
                self._define(operation.results, _WRITTEN)

    def _inner(self, operation: Operation) -> None:
        start = self._position
        self._results |= dict.fromkeys(ends_of(operation), operation.results)
        for region in operation.regions:
            is_branched = operation.name == "if"
            if is_branched:
                self._around.append(_Branched(operation, start, self._position + _AFTER, region))
            self._define(region.arguments, _HANDED_ON)
            self._region(region)
            if is_branched:
                self._around.pop()
            if operation.name == "while" and region is operation.regions[0]:
                # The body and the code after the loop get what the test gets.
                self._use(region.arguments)
        self._position += _STEP
        if operation.name in LOOPS:
            inside = (each for region in operation.regions for each in region.operations)
            used = {value for each in inside for value in each.used() if is_tile(value)}
            self._use(value for value in used if self.intervals[value][0][0] < start)
        self._define(operation.results, _HANDED_ON)


def _values(operation: Operation) -> Iterable[Value]:
    """Return the values that an operation reads and defines."""
    yield from operation.operands
    yield from operation.results
    for region in operation.regions:
        yield from region.arguments
