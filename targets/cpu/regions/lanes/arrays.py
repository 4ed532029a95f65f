"""Place elements of neighbouring threads side by side in the threads' local arrays.

Threads use the memory of a local array one after the other, so they cannot run together. With
``ring[j % 8]`` as ``ring[j % 8, lane]``, each thread of a strip has its own elements. A loop over
``j`` that all threads make together can then run outside the loop over lanes, and reads and writes
whole vectors.

This is done to an array that is used for elements alone, if each loop that accesses it runs
for a whole strip.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

from numba import types

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.language.element_types import ELEMENT_TYPES
from targets.cpu.regions.lanes.choice import Choice
from targets.cpu.regions.lanes.values import LaneValues, loads_of_bounds
from targets.cpu.regions.lanes.writer import Writer

__all__ = ["LaneArrays", "is_of_one_thread"]

#: Bytes of the arrays of a strip: more are not kept in the fastest cache.
_MOST_BYTES = 32 * 1024
_ELEMENTS = (types.Integer, types.Float, types.Boolean)
_LOOPS = ("for", "for_each", "while")


def is_of_one_thread(operation: Operation) -> bool:
    """Return whether an operation gives memory that threads use one after the other."""
    return operation.name == "local.array" and not operation.attributes.get("is_copied")


class LaneArrays:
    """The arrays of a row, which get a last axis of lanes, in place; `first` is lane 0's thread."""

    def __init__(self, row: Operation) -> None:
        (region,) = row.regions
        self.row = row
        self.first = Value(types.int64, None, "first")
        self.declared = [each for each in region.operations if is_of_one_thread(each)]
        self.values = {each.result for each in self.declared}
        front = Writer()
        lane = front.numba(operator.sub, region.arguments[0], self.first)
        for each in region.walk():
            if each.operands and each.operands[0] in self.values:
                end = len(each.operands) - (each.name == "array.store")
                each.operands.insert(end, lane)
                each.attributes["nonnegative"] = (*each.attributes["nonnegative"], True)
        for each in self.declared:
            each.attributes["memory"] = each
            each.result.type = each.result.type.copy(ndim=each.result.type.ndim + 1)
        rest = [each for each in region.operations if each not in self.declared]
        region.operations = [*front.operations, *rest]

    @staticmethod
    def suit(row: Operation) -> bool:
        """Return whether the arrays of a row are used for elements alone."""
        (region,) = row.regions
        declared = [each for each in region.walk() if is_of_one_thread(each)]
        arrays = {each.result for each in declared}
        return all(
            each in region.operations and isinstance(each.result.type.dtype, _ELEMENTS)
            for each in declared
        ) and all(_is_plain(each, arrays) for each in region.walk())

    def declare(self, lanes: int) -> list[Operation]:
        """Return what declares the arrays for a strip."""
        for each in self.declared:
            each.attributes["lanes"] = lanes
        return self.declared

    def fit(self, lanes: int) -> bool:
        """Return whether the arrays of a strip are small enough."""
        return lanes * sum(map(_nbytes, self.declared)) <= _MOST_BYTES

    def profit(self) -> bool:
        """Return whether loops access the arrays, and all of them run for a whole strip."""
        choice = Choice(LaneValues(self.row, loads_of_bounds(self.row)))
        operations = self.row.regions[0].operations
        return any(map(self._is_looped, operations)) and self._run_together(operations, choice)

    def _run_together(self, operations: Sequence[Operation], choice: Choice) -> bool:
        for each in operations:
            inside = [inner for region in each.regions for inner in region.operations]
            if choice.takes_turns(each):
                is_bad = any(map(self._is_looped, inside))
            elif choice.is_moved(each):
                is_bad = not self._run_together(inside, choice)
            else:
                is_bad = self._is_looped(each)
            if is_bad:
                return False
        return True

    def _is_looped(self, operation: Operation) -> bool:
        """Return whether an operation has a loop that accesses one of the arrays."""
        return any(
            loop.name in _LOOPS and not self.values.isdisjoint(loop.used())
            for loop in operation.walk()
        )


def _is_plain(operation: Operation, arrays: set[Value]) -> bool:
    """Return whether an operation uses no array, or an element of it."""
    if operation.name in ("array.load", "array.store"):
        return arrays.isdisjoint(operation.operands[1:])
    return arrays.isdisjoint(operation.operands)


def _nbytes(array: Operation) -> int:
    static = array.attributes["use"].static
    shape: tuple[int, ...] = static["shape"]
    return math.prod(shape) * ELEMENT_TYPES[static["dtype"]].nbytes
