"""Rows in which each thread works with the one that differs in a bit of its index.

In a stage of a butterfly, as of a bitonic sort, thread ``i`` works with thread ``i ^ step``. The
step is a power of two that all threads share. Threads are in groups of ``2 * step``: those of the
lower half have their partner `step` above them, those of the upper half `step` below. The halves
get separate rows ::

    for group in range(low, high, 2 * step):
        row over member in range(step):
            i = group + member          # i ^ step is i + step, which is greater than i
        row over member in range(step):
            i = group + step + member   # i ^ step is i - step, which is less

All accesses are then along rows. What depends on the half is decided, and a half that does nothing
is left out. Short steps have separate loops, with a length that LLVM knows.
"""

from __future__ import annotations

import operator
from dataclasses import field

from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.recognize import constant_number, is_shared_array, operator_of
from kerneldsl.ir.rewriter import clone, clone_inside, if_then, rewrite
from kerneldsl.lowering.loop_marks import NOT_UNROLLED
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.lanes.slots import needs_thread
from targets.cpu.regions.lanes.values import LaneValues, of_first_thread
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.regions.row_regions import has_effects, make_row

__all__ = ["in_halves"]

#: Steps shorter than a vector of the widest processors, for 32-bit values.
_SHORT_STEPS = (1, 2, 4, 8)
#: A longer body is not worth compiling so often.
_MOST_OPERATIONS = 60
#: Comparisons of an index with its partner's: whether they hold in the lower half, and the upper.
_DECIDED = {
    operator.lt: (True, False),
    operator.le: (True, False),
    operator.gt: (False, True),
    operator.ge: (False, True),
    operator.eq: (False, False),
    operator.ne: (True, True),
}


def in_halves(row: Operation) -> list[Operation]:
    """Return a row with its halves, and as it is for other steps; else the row."""
    region = row.regions[0]
    operations = list(region.walk())
    xors = [each for each in operations if operator_of(each) is operator.xor]
    if not xors or len(operations) > _MOST_OPERATIONS:
        return [row]
    values = LaneValues(row)
    inside = row.defined()
    pairs = (_own_and_step(each, values) for each in xors)
    found = {pair for pair in pairs if pair is not None and pair[1] not in inside}
    if len(found) != 1 or any(
        each.name in ("for", "while", "row") or needs_thread(each) for each in operations
    ):
        return [row]
    ((own, step),) = found
    return _Stage(row, values, own, step).written()


def _own_and_step(xor: Operation, values: LaneValues) -> tuple[Value, Value] | None:
    """Return the index of the thread and the step that an operation combines."""
    for own, step in (xor.operands, xor.operands[::-1]):
        is_long = own.type == step.type == types.int64
        if is_long and values.stride(own) == 1 and step not in values.varying:
            return own, step
    return None


class _Stage:
    """A row in which threads with an index work with those at ``index ^ step``."""

    def __init__(self, row: Operation, values: LaneValues, own: Value, step: Value) -> None:
        self.row = row
        self.values = values
        self.own, self.step = own, step
        #: Other operands of ``&`` with the index: multiples of a group's length.
        self.spans: list[Value] = []

    def written(self) -> list[Operation]:
        """Return the halves if the step is a power of two and the row is made of whole groups."""
        out = LoopWriter()
        start = of_first_thread(self.own, self.values, out)
        number = constant_number(self.step)
        if number is not None:
            if number <= 0 or number & (number - 1):
                return [self.row]
            found = self.groups(start, number)
        else:
            found = self.groups(start, None)
            for short in reversed(_SHORT_STEPS):
                choice = LoopWriter()
                is_short = choice.numba(operator.eq, self.step, choice.constant(short))
                found = [*choice.operations, if_then(is_short, self.groups(start, short), found)]
        out.operations.append(if_then(self.test(start, out), found, [self.row]))
        return out.operations

    def test(self, start: Value, out: LoopWriter) -> Value:
        low, high = self.row.operands
        one, step = out.constant(1), self.step
        bits = out.numba(operator.add, low, start)
        for more in (out.numba(operator.sub, high, low), *dict.fromkeys(self.spans)):
            bits = out.numba(operator.or_, bits, more)
        last = out.numba(operator.sub, step, one)
        mask = out.numba(operator.sub, out.numba(operator.add, step, step), one)
        zero = out.constant(0)
        return out.all(
            [
                out.numba(operator.lt, zero, step),
                out.numba(operator.lt, step, out.constant(2**62)),
                out.numba(operator.eq, out.numba(operator.and_, step, last), zero),
                out.numba(operator.eq, out.numba(operator.and_, bits, mask), zero),
            ]
        )

    def groups(self, start: Value, number: int | None) -> list[Operation]:
        """Return the loop over groups, for any step or a constant one."""
        out = LoopWriter()
        step = self.step if number is None else out.constant(number)
        whole = out.numba(operator.add, step, step) if number is None else out.constant(2 * number)
        low, high = self.row.operands
        region = Region((types.int64,))
        (group,) = region.arguments
        group.name = "group"
        inner = LoopWriter(region.operations)
        zero = inner.constant(0)
        for is_upper in (False, True):
            first = inner.numba(operator.add, group, step) if is_upper else group
            half = _Half(self, inner, step, start, first, is_upper=is_upper)
            member = Region((types.int64,))
            operations = with_selections(half.of(member, is_alone=number == 1))
            if not has_effects(operations):
                continue
            if number == 1:
                inner.operations += operations
                continue
            member.operations = [*operations, Operation("yield", [])]
            made = make_row(zero, step, member)
            # LLVM makes no vectors of two; it unrolls them, and makes vectors of several groups.
            made.attributes["marks"] = () if number in (None, 2) else (NOT_UNROLLED,)
            inner.operations.append(made)
        inner.end()
        if number != 1:
            out.operation("for", [low, high, whole], (), None, [region])
            return out.operations
        return [*out.operations, *self._pairs(region, low, high)]

    @staticmethod
    def _pairs(region: Region, low: Value, high: Value) -> list[Operation]:
        """Return a row over groups of two threads."""
        out = LoopWriter()
        two = out.constant(2)
        # A guard may end the row below its first thread, by more than int64 has.
        count = out.numba(operator.rshift, out.difference(high, low), out.constant(1))
        (group,) = region.arguments
        pairs = Region((types.int64,))
        inner = LoopWriter()
        place = inner.numba(operator.mul, pairs.arguments[0], two)
        first = inner.numba(operator.add, low, place)
        copies = {group: first}
        pairs.operations = [*inner.operations, *(clone(each, copies) for each in region.operations)]
        made = make_row(out.constant(0), count, pairs)
        made.attributes["marks"] = ()
        return [*out.operations, made]


@dataclass(eq=False)
class _Half:
    """Writes a row's body for one half of a group; `group` is what all of it share."""

    stage: _Stage
    group: LoopWriter
    step: Value
    start: Value
    first: Value
    is_upper: bool
    partners: set[Value] = field(default_factory=set)
    known: dict[Value, bool] = field(default_factory=dict)

    def of(self, member: Region, *, is_alone: bool) -> list[Operation]:
        """Return the operations for a member; the only one of a half is the first."""
        (region,) = self.stage.row.regions
        out = LoopWriter()
        index = self.first
        if not is_alone:
            index = out.numba(operator.add, self.first, member.arguments[0])
        values = {region.arguments[0]: index}
        copy = clone_inside(region, values)
        self.own = values.get(self.stage.own, self.stage.own)
        #: Values that are defined within the group.
        self.inside = set(values.values())
        rewrite(copy, {"numba": self.simpler, "if": self.taken})
        return [*out.operations, *copy.operations[:-1]]

    def taken(self, operation: Operation) -> tuple[list[Operation], list[Value]] | None:
        """Return what a branch does that this half decides."""
        is_true = self.known.get(operation.operands[0])
        if is_true is None:
            return None
        region = operation.regions[not is_true]
        return region.operations[:-1], region.yielded

    def simpler(self, operation: Operation) -> tuple[list[Operation], list[Value]] | None:
        """Return what an operation is in this half, if that is simpler."""
        function, own = operator_of(operation), self.own
        if len(operation.operands) != 2:
            return None
        one, two = operation.operands
        out = LoopWriter()
        if function is operator.xor and own in (one, two) and self.stage.step in (one, two):
            partner = out.numba(operator.sub if self.is_upper else operator.add, own, self.step)
            self.partners.add(partner)
            self.inside.add(partner)
            return out.operations, [partner]
        if function is operator.and_ and own in (one, two):
            found = self.bits(two if one is own else one)
            if found is None:
                return None
            self.inside.add(found)
            return [], [found]
        if function in _DECIDED:
            for mine, other, is_above in ((one, two, self.is_upper), (two, one, not self.is_upper)):
                if mine is own and other in self.partners:
                    is_true = _DECIDED[function][is_above]
                    truth = out.truth(is_true)
                    self.known[truth] = is_true
                    return out.operations, [truth]
        return None

    def bits(self, other: Value) -> Value | None:
        """Return the bits of a thread's index that it shares with its group."""
        stage, group = self.stage, self.group
        if other is stage.step:
            return self.step if self.is_upper else group.constant(0)
        if other in self.inside or other.type != types.int64:
            return None
        stage.spans.append(other)
        return group.numba(operator.and_, group.numba(operator.add, self.first, self.start), other)


def with_selections(operations: list[Operation]) -> list[Operation]:
    """Return operations in which swaps of elements have no branch.

    ``if test: a[i] = high`` becomes ``a[i] = high if test else low``, if the thread has read
    ``a[i]`` from an array of the block before. No other thread writes elements that a thread reads
    before the next barrier.
    """
    read: dict[tuple[Value, ...], Value] = {}
    out = LoopWriter()
    for operation in operations:
        if operation.name == "if" and _swaps(operation, read):
            yes = operation.regions[0].operations[:-1]
            out.operations += [each for each in yes if each.name != "array.store"]
            for each in yes:
                if each.name == "array.store":
                    *place, value = each.operands
                    each.operands[-1] = out.select(operation.operands[0], value, read[tuple(place)])
                    out.operations.append(each)
            read = {}
            continue
        if operation.name == "array.load":
            read[tuple(operation.operands)] = operation.result
        elif operation.effects() & ~Effect.READ:
            read = {}
        out.operations.append(operation)
    return out.operations


def _swaps(operation: Operation, read: dict[tuple[Value, ...], Value]) -> bool:
    """Return whether an ``if`` only writes elements that were read."""
    yes, no = operation.regions
    if operation.results or len(no.operations) > 1 or yes.is_left:
        return False
    for each in yes.operations[:-1]:
        if each.name == "array.store":
            *place_parts, value = each.operands
            place = tuple(place_parts)
            if not is_shared_array(place[0]) or place not in read or value.type != read[place].type:
                return False
        elif each.effects() or each.regions:
            return False
    return len(yes.operations) > 1
