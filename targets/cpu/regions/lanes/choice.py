"""Choose the loops of a row that all its threads run together, one iteration after the other.

Between two barriers threads may be interleaved after any instruction. So a loop that all of them
run equally often may always be moved outside the loop over threads. It is moved if memory is then
read along its rows. It is also moved if threads fold values that all of them read.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator

from numba import types

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.ir.recognize import (
    constant_number,
    constant_range,
    operands_of,
    operator_of,
    sources_of,
)
from kerneldsl.language.intrinsics.intrinsic import Effect as LanguageEffect
from targets.cpu.regions.lanes.values import LaneValues, place_of

__all__ = ["IN_REGISTERS", "STRIP", "Choice"]

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
