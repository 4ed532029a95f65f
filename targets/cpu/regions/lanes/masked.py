"""Run loops that threads leave one by one for a strip of them at once, under a mask.

The threads of a strip are the lanes of vectors. ``while test: body`` with a test that differs
between threads becomes ::

    for each lane: inside = test
    while any lane is inside:
        for each lane:
            what the body and the test compute, for new values of the variables
            if inside: take them

A lane that has left goes on computing unused values: a body of such a loop accesses no memory and
calls only arithmetic. A ``break`` gives a lane the results of the loop, and ends its part. A row
over lanes has no other control in it than selections, so that LLVM vectorizes it. Each thread does
what it did, in the same order.

References
----------
Pharr and Mark, "ispc: A SPMD Compiler for High-Performance CPU Programming", InPar 2012.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, NamedTuple

from numba import types

from kerneldsl.ir.operations import Effect, Label, Operation, Region, Value, given_to, handed_on
from kerneldsl.ir.recognize import OPERATORS, constant_number, operands_of, operator_of
from kerneldsl.ir.rewriter import clone_inside
from targets.cpu.math.vector.define import FUNCTIONS
from targets.cpu.regions.lanes.values import LaneValues
from targets.cpu.regions.loop_writer import LoopWriter

if TYPE_CHECKING:
    from targets.cpu.regions.lanes.strips import Strip

__all__ = ["LANES", "masked_loop", "write_masked"]

#: Threads of a strip: one vector of the widest processors for 32-bit values.
LANES = 16
_PLAIN = frozenset(
    {
        *("const", "cast", "undefined", "tuple.make", "tuple.member", "array.size"),
        *("array.extent", "yield", "leave", "unreachable", "if", "labeled", "for_each"),
    }
)
_DIVISIONS = (operator.floordiv, operator.mod)
#: Functions besides :data:`FUNCTIONS` that LLVM evaluates on vectors.
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
    #: The operation that a ``break`` of the loop leaves.
    labeled: Operation | None
    #: Operations of each lane after the loop, within `labeled`.
    after: list[Operation]


def masked_loop(operation: Operation, values: LaneValues) -> MaskedLoop | None:
    """Return a loop that threads leave one by one, if its body is arithmetic alone."""
    found = _loop_of(operation)
    if found is None:
        return None
    loop = found.loop
    if not (values.is_divided(loop) and all(map(_is_number, [*loop.results, *operation.results]))):
        return None
    if loop.name == "for" and not (
        loop.operands[0].type == types.int64 and constant_number(loop.operands[2])
    ):
        return None  # its step is unknown, or its counter not an int64
    if not all(_is_plain(each) for region in loop.regions for each in region.walk()):
        return None
    return found if all(_is_plain(each) for each in found.after) else None


def _loop_of(operation: Operation) -> MaskedLoop | None:
    if operation.name in ("for", "while"):
        return None if operation.may_be_left() else MaskedLoop(operation, None, [])
    if operation.name != "labeled" or operation.regions[0].is_left or operation.may_be_left():
        return None
    loop, *after = operation.regions[0].operations[:-1] or [operation]
    leaves = set(operation.leaves())
    if loop.name not in ("for", "while") or not leaves <= set(loop.walk()):
        return None
    if any(each.name in ("for", "while", "for_each") for r in loop.regions for each in r.walk()):
        return None
    return MaskedLoop(loop, operation, after)


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
    if function in OPERATORS:
        return function is not operator.matmul
    name = getattr(function, "__name__", str(function))
    return name in FUNCTIONS or name in _INSTRUCTIONS or isinstance(function, types.NumberClass)


# -- rounds ----------------------------------------------------------------------------------------


def write_masked(strip: Strip, masked: MaskedLoop, group: list[Operation]) -> list[Operation]:
    """Return the rounds of a strip; `group` has what lanes do before, then what they do after."""
    return _Rounds(strip, masked).written(group)


class _Rounds:
    def __init__(self, strip: Strip, masked: MaskedLoop) -> None:
        self.strip = strip
        self.masked = masked
        self.loop = loop = masked.loop
        self.body = loop.regions[-1]
        slots = strip.slots
        self.inside = slots.make(types.boolean, "inside")
        #: Slots of the variables of the loop.
        self.carried = [slots.give(values, "carried") for values, _ in handed_on(loop)]
        #: The slot of the counter of a ``for``, if it differs between lanes that are inside.
        self.counter: Value | None = None
        self.is_counted = loop.name == "for"
        if self.is_counted and strip.values.vary([loop.operands[0]]):
            self.counter = slots.make(types.int64, "counter")
        #: Slots that a ``break`` writes, one for each result.
        self.results: list[Value] = []
        #: Results that have their values only after the loop, their slots, and those values.
        self.late: list[tuple[Value, Value, Value]] = []
        #: Slot with the lanes that have left by a ``break``, if it is needed.
        self.broken: Value | None = None

    def written(self, group: list[Operation]) -> list[Operation]:
        strip, loop = self.strip, self.loop
        first = LoopWriter(group)
        self.prepare_results(first)
        given = [*(loop.operands[:1] if self.is_counted else []), *given_to(loop)]
        first.store(self.inside, self.test(given, first))
        if self.counter is not None:
            first.store(self.counter, loop.operands[0])
        for place, value in zip(self.carried, given_to(loop), strict=True):
            first.store(place, value)
        out = LoopWriter()
        if not strip.is_full:
            out.operation("lane.clear", [self.inside], effect=Effect.WRITE)
        out.operations.append(strip.run_row(list(group)))
        group.clear()
        has_counter = self.is_counted and self.counter is None
        kinds = (types.int64,) if has_counter else ()
        before, body = Region(kinds), Region(kinds)
        test = LoopWriter(before.operations)
        any_lane = test.operation("lane.any", [self.inside], (types.boolean,), effect=Effect.READ)
        test.end(any_lane.result)
        inner = LoopWriter(body.operations)
        if strip.is_full:
            inner.operation("lane.head", [], effect=Effect.WRITE)
        following = [self.following(body.arguments[0], inner)] if has_counter else []
        inner.operations.append(strip.run_row(self.round([*body.arguments, *following])))
        inner.end(*following)
        out.operation(
            "while", loop.operands[:1] if has_counter else [], kinds, None, [before, body]
        )
        self.finish(first)
        return out.operations

    def following(self, counter: Value, writer: LoopWriter) -> Value:
        """Write the next number, or the end of int64 that is nearest: it ends the loop, too."""
        step = self.loop.operands[2]
        if constant_number(step) in (1, -1):
            return writer.numba(operator.add, counter, step)
        return writer.add("int.saturating_add", counter, step)

    # -- results ----------------------------------------------------------------------------------

    def prepare_results(self, writer: LoopWriter) -> None:
        """Choose where results are: with a variable of the loop, or in a separate slot.

        A lane that has left by ``break`` needs none of the loop's variables any more.
        """
        labeled = self.masked.labeled
        if labeled is None:
            return
        late = {value for each in self.masked.after for value in each.results}
        late.update(self.loop.results)
        slots = self.strip.slots
        for result, last in zip(labeled.results, labeled.regions[0].yielded, strict=True):
            is_free = last in self.loop.results and slots.place_of[last] not in self.results
            # A break may leave an integer of more bits than the variable has in the loop.
            place = slots.share([result], last) if is_free else None
            if place is None:
                place = slots.give([result], "result")
                if last in late:
                    self.late.append((result, place, last))
                else:
                    writer.store(place, last)
            self.results.append(place)
        if self.late:
            self.broken = self.strip.slots.make(types.boolean, "broken")
            writer.store(self.broken, writer.truth(False))

    def finish(self, writer: LoopWriter) -> None:
        """Add what lanes do after the loop, and give the results their values."""
        writer.operations += self.masked.after
        if self.broken is not None:
            is_broken = writer.load(self.broken)
            for result, place, last in self.late:
                chosen = writer.select(is_broken, writer.load(place, kind=last.type), last)
                assert isinstance(chosen.owner, Operation)
                chosen.owner.take_results([result])
                # The row that computes it would read its slot before.
                del self.strip.slots.place_of[result]

    # -- rounds -----------------------------------------------------------------------------------

    def test(self, variables: list[Value], writer: LoopWriter) -> Value:
        """Write the test of the loop for values of its counter and variables."""
        if self.loop.name == "while":
            before = self.loop.regions[0]
            copy = clone_inside(before, dict(zip(before.arguments, variables, strict=True)))
            writer.operations += copy.operations[:-1]
            return copy.yielded[0]
        _, stop, step, *_ = self.loop.operands
        number = constant_number(step)
        assert number is not None
        return writer.numba(operator.lt if number > 0 else operator.gt, variables[0], stop)

    def round(self, counter: list[Value]) -> list[Operation]:
        """Return what the lanes do in a round; a shared counter has its value and the next one."""
        writer = LoopWriter()
        is_inside = writer.load(self.inside)
        old = [
            writer.load(place, kind=each.type)
            for place, each in zip(self.carried, self.loop.results, strict=True)
        ]
        if self.counter is not None:
            now = writer.load(self.counter)
            counter = [now, self.following(now, writer)]
            writer.store(self.counter, counter[1])
        values = dict(zip(self.body.arguments, [*counter[:1], *old], strict=True))
        copy = clone_inside(self.body, values)
        if self.masked.labeled is None:
            writer.operations += copy.operations[:-1]
            new, goes_on = copy.yielded, self.test([*counter[1:], *copy.yielded], writer)
        else:
            stays, left, new = self.until_break(copy, self.masked.labeled, old, writer)
            goes_on = writer.all([stays, self.test([*counter[1:], *new], writer)])
            new = self.taken(left, new, stays, writer)
            self.keep(left, writer.all([is_inside, writer.opposite(stays)]), writer)
        for place, before, value in zip(self.carried, old, new, strict=True):
            writer.store(place, writer.select(is_inside, value, before))
        writer.store(self.inside, writer.all([is_inside, goes_on]))
        return writer.operations

    def taken(
        self, left: list[Value], new: list[Value], stays: Value, writer: LoopWriter
    ) -> list[Value]:
        """Return the variables after a round, with the results of lanes that leave."""
        found = list(new)
        for place, value in zip(self.results, left, strict=True):
            if place in self.carried:
                number = self.carried.index(place)
                found[number] = writer.select(stays, new[number], value)
        return found

    def keep(self, left: list[Value], leaves: Value, writer: LoopWriter) -> None:
        """Store the other results of lanes that leave."""
        for place, value in zip(self.results, left, strict=True):
            if place not in self.carried:
                before = writer.load(place, kind=value.type)
                writer.store(place, writer.select(leaves, value, before))
        if self.broken is not None:
            writer.store(self.broken, writer.select(leaves, leaves, writer.load(self.broken)))

    def until_break(
        self, body: Region, labeled: Operation, old: list[Value], writer: LoopWriter
    ) -> tuple[Value, list[Value], list[Value]]:
        """Write a body that lanes may leave.

        Return whether a lane stays, the results if it does not, and the variables if it does.
        """
        label, region = Label("break"), Region()
        inner = LoopWriter(region.operations)
        no = inner.truth(False)
        nothing = [inner.operation("undefined", [], (v.type,)).result for v in labeled.results]
        for each in body.walk():
            if each.name == "leave" and each.attributes["label"] is labeled.attributes["label"]:
                each.attributes = {"label": label}
                each.operands = [no, *each.operands, *old]
        inner.operations += body.operations if body.is_left else body.operations[:-1]
        if not body.is_left:
            inner.end(inner.truth(True), *nothing, *body.yielded)
        kinds = [types.boolean, *(value.type for value in (*labeled.results, *old))]
        made = writer.operation("labeled", [], tuple(kinds), {"label": label}, [region])
        stays, *rest = made.results
        count = len(labeled.results)
        return stays, rest[:count], rest[count:]
