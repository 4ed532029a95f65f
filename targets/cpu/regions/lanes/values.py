"""Values of a row that differ between its threads, and indices that grow from thread to thread."""

from __future__ import annotations

import operator
from collections.abc import Collection

from numba import types

from kerneldsl.ir.operations import LOOPS, Effect, Operation, Region, Value, handed_on
from kerneldsl.ir.recognize import constant_number, indices_of, operands_of, operator_of, sources_of
from kerneldsl.ir.rewriter import clone
from targets.cpu.regions.loop_writer import LoopWriter

__all__ = ["SUMS", "LaneValues", "loads_of_bounds", "of_first_thread", "place_of"]

#: Operations that read an element: at one place it is the same for all threads that read it at
#: once.
_LOADS = ("array.load", "packed.load")
SUMS = {operator.add: 1, operator.sub: -1}


class LaneValues:
    """The values of a ``row``: those that differ between its threads.

    Loads of `shared` elements are the same for all threads. By default these are all loads from
    one place.
    """

    def __init__(self, row: Operation, shared: Collection[Operation] | None = None) -> None:
        (region,) = row.regions
        #: The index of the thread.
        self.lane = region.arguments[0]
        self.varying: set[Value] = {self.lane}
        self._shared = shared
        self._strides: dict[Value, int | None] = {}
        self._region(region)

    def vary(self, values: Collection[Value]) -> bool:
        """Return whether one of some values differs between threads."""
        return any(value in self.varying for value in values)

    def _region(self, region: Region) -> None:
        for operation in region.operations:
            self._operation(operation)

    def _operation(self, operation: Operation) -> None:
        varies = self.vary(operation.operands)
        if operation.name in LOOPS:
            self._loop(operation)
            return
        if operation.name in ("if", "labeled"):
            for region in operation.regions:
                self._region(region)
            varies |= operation.name == "labeled" and any(operation.leaves())
            for targets, sources in handed_on(operation):
                if varies or self.vary(sources):
                    self.varying.update(targets)
            return
        for region in operation.regions:
            if varies:
                self.varying.update(region.arguments)
            self._region(region)
        if varies or not self._is_shared(operation):
            self.varying.update(operation.results)

    def _is_shared(self, operation: Operation) -> bool:
        """Return whether an operation gives all threads one result if its operands do."""
        if operation.name == "local.array":
            return False
        if operation.effects() == Effect.READ and operation.name in _LOADS:
            return self._shared is None or operation in self._shared
        return not operation.effects() & ~Effect.ALLOCATE

    def _loop(self, operation: Operation) -> None:
        body, count = operation.regions[-1], len(operation.results)
        bounds = operation.operands[: len(operation.operands) - count]
        if self.vary([bounds[0], bounds[2]] if operation.name == "for" else bounds):
            self.varying.update(body.arguments[: len(body.arguments) - count])
        before = -1
        while len(self.varying) > before:
            before = len(self.varying)
            for targets, sources in handed_on(operation):
                if self.vary(sources):
                    self.varying.update(targets)
            for region in operation.regions:
                self._region(region)
        if self.is_divided(operation):
            self.varying.update(operation.results)

    def is_divided(self, loop: Operation) -> bool:
        """Return whether threads may run a loop for different numbers of rounds."""
        if loop.name == "while":
            if self.vary(loop.regions[0].yielded):
                return True
        elif self.vary(loop.operands[: len(loop.operands) - len(loop.results)]):
            return True
        return loop.may_be_left()

    def stride(self, value: Value) -> int | None:
        """Return how much an integer grows from a thread to the next one, if that is constant."""
        if value is self.lane:
            return 1
        if value not in self.varying:
            return 0
        if value not in self._strides:
            self._strides[value] = self._stride(value)
        return self._strides[value]

    def _stride(self, value: Value) -> int | None:
        made = value.owner
        if not isinstance(made, Operation) or not isinstance(value.type, types.Integer):
            return None
        if made.name == "cast" and made.operands[0].type in (types.int64, types.uint64):
            return self.stride(made.operands[0]) if value.type.bitwidth == 64 else None
        function, operands = operator_of(made), operands_of(made)
        if function in SUMS and len(operands) == 2:
            one, two = map(self.stride, operands)
            return None if one is None or two is None else one + SUMS[function] * two
        if function is operator.mul:
            for each, other in (operands, operands[::-1]):
                factor, stride = constant_number(each), self.stride(other)
                if factor is not None and stride is not None:
                    return factor * stride
        return None


def place_of(access: Operation) -> tuple[Value, list[Value]]:
    """Return the array of an access and its indices, with those of rows that it is a part of."""
    array, found = access.operands[0], indices_of(access)
    while isinstance(array.owner, Operation) and array.owner.name == "array.part":
        array, *more = array.owner.operands
        found = [*more, *found]
    return array, found


def loads_of_bounds(row: Operation) -> set[Operation]:
    """Return the loads of shared elements that decide how often the loops of a row run."""
    values = LaneValues(row)
    bounds = [
        value
        for each in row.walk()
        if each.name in ("for", "while")
        for value in (each.operands[:3] if each.name == "for" else each.regions[0].yielded[:1])
    ]
    makers = {value.owner for value in sources_of(bounds)}
    return {
        each
        for each in makers
        if isinstance(each, Operation) and each.name in _LOADS and not values.vary(each.results)
    }


def of_first_thread(value: Value, values: LaneValues, out: LoopWriter) -> Value:
    """Write what a sum with the index of a thread is for index 0."""
    if value is values.lane:
        return out.constant(0)
    if value not in values.varying:
        return value
    made = value.owner
    assert isinstance(made, Operation)
    operands = {each: of_first_thread(each, values, out) for each in made.operands}
    out.operations.append(clone(made, operands))
    return operands[value]
