"""Values of a row that differ between its threads, and the loops that its threads run together.

Between two barriers threads may be interleaved after any instruction. So a loop that all of them
run equally often may always be moved outside the loop over threads. It is moved if memory is then
read along its rows. It is also moved if threads fold values that all of them read.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterator

from numba import types

from kerneldsl.ir.operations import LOOPS, Effect, Operation, Region, Value, handed_on
from kerneldsl.ir.recognize import (
    constant_number,
    constant_range,
    indices_of,
    operands_of,
    operator_of,
    sources_of,
)
from kerneldsl.ir.rewriter import clone
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect
from targets.cpu.regions.loop_writer import LoopWriter

__all__ = [
    "IN_REGISTERS",
    "STRIP",
    "Choice",
    "LaneValues",
    "loads_of_bounds",
    "of_first_thread",
    "place_of",
]

#: Operations that read an element: at one place it is the same for all threads that read it at
#: once.
_LOADS = ("array.load", "packed.load")
_SUMS = {operator.add: 1, operator.sub: -1}


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
        if function in _SUMS and len(operands) == 2:
            one, two = map(self.stride, operands)
            return None if one is None or two is None else one + _SUMS[function] * two
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


# -- loops that all threads of a row run together --------------------------------------------------


#: Threads that run an iteration together, where each adds up its own values.
STRIP = 64
#: Lanes with a few values each that registers hold.
IN_REGISTERS = 128
#: Elements from a thread's to the next one's at which vectors of both are read at once.
_NEAR = range(1, 9)
#: Rounds of a loop, and operations of all of them, up to which LLVM unrolls it.
_ROUNDS, _MOST_WRITTEN = 16, 400
#: Operations that read or write an element.
_ACCESSES = ("array.load", "packed.load", "array.store")


class Choice:
    """Judges the loops of a row."""

    def __init__(self, values: LaneValues) -> None:
        self.values = values

    def is_moved(self, loop: Operation) -> bool:
        """Return whether a loop moves outside the loop over threads."""
        if loop.name not in ("for", "while") or self.values.is_divided(loop):
            return False
        return self._profits(loop)

    def takes_turns(self, loop: Operation) -> bool:
        """Return whether threads begin a loop side by side, and all add one stride."""
        if loop.name != "for" or loop.may_be_left() or loop.regions[-1].is_left:
            return False
        start, stop, step, *_ = loop.operands
        values = self.values
        if start.type != types.int64:
            return False
        if values.vary([stop, step]) or values.stride(start) != 1:
            return False
        return _is_positive(step)

    def is_common(self, branch: Operation) -> bool:
        """Return whether all threads take the same way of a branch, with loops that are moved."""
        return (
            branch.name == "if"
            and branch.operands[0] not in self.values.varying
            and not any(region.is_left for region in branch.regions)
            and not branch.may_be_left()
            and any(True for region in branch.regions for _ in self.moved_loops(region))
        )

    def moved_loops(self, region: Region) -> Iterator[Operation]:
        """Yield the loops of a region that move, also those in branches that threads share."""
        for operation in region.operations:
            if self.is_moved(operation) or self.takes_turns(operation):
                yield operation
            elif self.is_common(operation):
                for inner in operation.regions:
                    yield from self.moved_loops(inner)

    def keeps_folds(self, loop: Operation) -> bool:
        """Return whether threads fold values in a loop. Registers hold them for a strip at most.

        A loop that goes on where the step before ended runs along whole rows. Memory is then read
        in its order, which is worth more than values in registers.
        """
        return self._accumulates(loop) and not self._goes_on(loop)

    def is_contiguous(self, access: Operation) -> bool:
        """Return whether neighbouring threads access neighbouring elements, or all threads one."""
        _, indices = place_of(access)
        *rows, last = (_reaches(each, {self.values.lane}) for each in indices)
        return not any(rows) and (not last or self.values.stride(indices[-1]) == 1)

    def _profits(self, loop: Operation) -> bool:
        inner = [each for each in loop.walk() if each is not loop]
        if any(each.name == "while" or _is_atomic(each) for each in inner):
            return False
        contiguous = 0
        accesses = [each for each in loop.walk() if each.name in _ACCESSES]
        if not accesses and _is_unrolled(loop):
            return False
        for access in accesses:
            verdict = self._judge(access, loop)
            if verdict is None:
                return False
            contiguous += verdict
        return contiguous > 0 or self._accumulates(loop)

    def _accumulates(self, loop: Operation) -> bool:
        return self.values.vary(loop.results)

    def _judge(self, access: Operation, loop: Operation) -> int | None:
        """Return 1 for an access contiguous in the thread, 0 for a neutral, None for a bad one."""
        _, indices = place_of(access)
        by_thread = [_reaches(each, {self.values.lane}) for each in indices]
        if not any(by_thread):
            return 0
        counters = set(loop.regions[-1].arguments)
        by_counter = [_reaches(each, counters) for each in indices]
        if by_thread[-1] and not any(by_thread[:-1]):
            stride = self.values.stride(self._unclamped(indices[-1]))
            if stride == 1:
                return 1
            # Vectors of interleaved elements are read whole, and split.
            return 0 if stride in _NEAR and not by_counter[-1] else None
        # The thread steps over rows: harmless if the row stays the same while the loop runs.
        return None if any(by_counter) else 0

    def _unclamped(self, index: Value) -> Value:
        """Return what an index is within the limits that ``min`` and ``max`` set it."""
        made = index.owner
        if isinstance(made, Operation) and operator_of(made) in (min, max):
            varying = [each for each in operands_of(made) if each in self.values.varying]
            if len(varying) == 1:
                return self._unclamped(varying[0])
        return index

    def _goes_on(self, loop: Operation) -> bool:
        """Return whether a step of a loop reads the elements after those of the step before."""
        if loop.name != "for" or constant_number(loop.operands[2]) in range(STRIP):
            return False
        counter = loop.regions[-1].arguments[0]
        last = (place_of(each)[1][-1] for each in loop.walk() if each.name in _ACCESSES)
        return any(
            self.values.stride(self._unclamped(index)) == 1 and _counts(index, counter)
            for index in last
        )


def _reaches(value: Value, targets: set[Value]) -> bool:
    """Return whether a value is computed from one of some values, without control in between."""
    return any(each in targets for each in sources_of([value]))


def _counts(index: Value, counter: Value) -> bool:
    """Return whether an index grows by one with a counter: it is a term of the sum."""
    if index is counter:
        return True
    made = index.owner
    if not isinstance(made, Operation):
        return False
    if operator_of(made) is operator.add:
        return any(_counts(each, counter) for each in operands_of(made))
    return operator_of(made) in (min, max) and any(_counts(e, counter) for e in operands_of(made))


def _is_unrolled(loop: Operation) -> bool:
    """Return whether LLVM writes a loop out, so that it makes vectors of the row around it."""
    if loop.name != "for" or any(each.name == "while" for each in loop.walk()):
        return False
    values = constant_range(loop)
    return (
        values is not None
        and len(values) <= _ROUNDS
        and len(values) * sum(1 for _ in loop.walk()) <= _MOST_WRITTEN
    )


def _is_positive(step: Value) -> bool:
    number = constant_number(step)
    if number is not None:
        return number > 0
    made = step.owner
    if not isinstance(made, Operation):
        return False
    if operator_of(made) is operator.mul:
        return all(map(_is_positive, operands_of(made)))
    return made.name.partition(".")[0] in ("gridsize", "gridDim", "blockDim", "warpsize")


def _is_atomic(operation: Operation) -> bool:
    use = operation.attributes.get("use")
    return use is not None and bool(use.intrinsic.effect & LanguageEffect.ATOMIC)
