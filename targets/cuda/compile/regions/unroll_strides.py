"""Unroll loops with a stride by four, so that loads come before their uses.

The number of iterations of ``while i < x.size: …; i += stride`` is a quotient. LLVM avoids the
division, and so neither LLVM nor ptxas unrolls the loop: each load is waited for. For ``range(i,
x.size, stride)`` the number is computed by a division. The loops written here need no division.
Of a stride that is a number LLVM unrolls the loop, by two if its body is long, and ptxas keeps the
rests of that. Four iterations run while the last of them is before the end, and a plain loop runs
the others:

.. code-block:: python

    last = x.size - 3 * stride
    while i < last:
        for _ in range(4):
            …
            i += stride
    while i < x.size:
        …
        i += stride

Loops over a block and its border, ``range(threadIdx.x, blockDim.x + 16, blockDim.x)``, have fewer
than four iterations in most launches. They are only the plain loop. If they fill shared memory,
and the stride is not along x, four iterations are tested one by one, with their loads before their
stores. CUDA C that does so takes 5 % less time on an H200.

The stride is known to be positive. The end is known not to be negative, and both are known to be
far from overflow, as sizes are, or the kernel tests that. Each of the four iterations computes its
addresses from the counter, which is hidden from LLVM at the start of the loop. LLVM would have a
register for the address of each array in each iteration (seen with 22, "LoopStrengthReduce"), and
ptxas no registers for the loads.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from functools import partial, reduce
from typing import Any

from numba import types

from kerneldsl.contract import Report
from kerneldsl.ir.linear_forms import LinearForms
from kerneldsl.ir.loop_trips import tested_variable
from kerneldsl.ir.operations import LOOPS, Effect, Function, Operation, Region, Value
from kerneldsl.ir.ranges import Interval, ranges_of
from kerneldsl.ir.recognize import constant_number, operator_of
from kerneldsl.ir.rewriter import Builder, clone, clone_inside, replace_operations
from kerneldsl.ir.typing import Typing
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED, NOT_UNROLLED
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.compile.regions.walks import (
    INVARIANT,
    affects_others,
    loads_ahead,
    location,
    made_of,
    statements_in,
)

__all__ = ["HIDDEN", "unroll_strides"]

#: An operation that gives a copy of an int64 that LLVM cannot look into.
HIDDEN = "loop.same"
_TURNS = 4
#: Loads of an iteration; those of all four are in registers at once.
_MOST_LOADS = 4
_MOST_STATEMENTS = 8
#: Numbers beyond whole strides at the end of a loop with few iterations: a border on both sides.
_MOST_BEYOND = 64
#: Ends up to which a mask shows that a counter is small.
_SMALL = 2**16
#: No counter of an int64 overflows in a step of the largest size from here.
_LARGEST_END = 2**62
#: Three of them, subtracted from an end, do not overflow.
_LARGEST_STEP = 2**60
_INT64 = types.int64
_SIGNED = (types.int32, types.int64)


def unroll_strides(function: Function, typing: Typing, report: Report) -> None:
    """Unroll such loops."""
    loops = [each for each in function.body.walk() if each.name in ("for", "while")]
    strided = [found for each in loops if (found := _candidate(each)) is not None]
    if not strided:
        return
    known, forms = ranges_of(function), LinearForms()
    chosen: dict[Operation, _Loop] = {}
    short: dict[Operation, list[Operation]] = {}
    for loop in strided:
        refusal = _refusal(loop, known)
        where = [location(function, loop.operation)]
        if refusal is not None:
            report("loop", f"not unrolled: {refusal}", where=where, is_missed=True)
            continue
        if _is_short(loop, known, forms):
            ahead = []
            if loop.number is None:
                if not _is_stepped_along_x(loop):
                    ahead = loads_ahead(loop.operation, frozenset(function.body.arguments))
                short[loop.operation] = ahead
            if ahead:
                report("loop", "unrolled by four, each with a test", where=where)
            else:
                report("loop", "not unrolled: few iterations", where=where, is_missed=True)
            if loop.number is not None:
                continue
        else:
            report("loop", "unrolled by four", where=where)
        chosen[loop.operation] = loop
    if chosen:
        writer = _Writer(typing, known, short)
        replace_operations(
            function.body, lambda each: writer.written(chosen[each]) if each in chosen else None
        )


@dataclass(frozen=True)
class _Loop:
    """A loop with a stride."""

    operation: Operation
    #: The variable that it counts in: an argument of the body.
    counter: Value
    start: Value
    #: Bound of the counter; a value of the condition region for ``while``.
    stop: Value
    step: Value
    #: Number of the counter among the variables of the loop; ``None`` for ``for``.
    number: int | None


def _candidate(loop: Operation) -> _Loop | None:
    body = loop.regions[-1]
    if body.is_left:
        return None
    if loop.name == "for":
        start, stop, step, *_ = loop.operands
        if not _is_stride(step, stop):
            return None
        return _Loop(loop, body.arguments[0], start, stop, step, None)
    tested = tested_variable(loop)
    if tested is None or tested.relation is not operator.lt:
        return None
    number, update = tested.number, tested.update
    if update not in body.operations or operator_of(update) is not operator.add:
        return None
    counter, step = update.operands
    if not _is_stride(step, tested.limit):
        return None
    return _Loop(loop, counter, loop.operands[number], tested.limit, step, number)


def _is_stride(step: Value, stop: Value) -> bool:
    """Return whether a loop with a step may need more than LLVM and ptxas do to unroll it.

    Of a loop with known bounds they know how often it runs. They unroll one that counts by one.
    """
    number = constant_number(step)
    return number is None or (number > 1 and constant_number(stop) is None)


def _refusal(loop: _Loop, known: Mapping[Value, Interval]) -> str | None:
    """Return why a loop stays as it is.

    Its body has to be a few simple statements that affect this thread alone.
    """
    body = loop.operation.regions[-1]
    inner = {value for region in loop.operation.regions for value in region.arguments}
    if not all(_is_invariant(value, loop.operation, inner) for value in (loop.stop, loop.step)):
        return "the end or the stride changes in the loop"
    if known.get(loop.step, (0, 0))[0] <= 0:
        return "the stride is not known to be positive"
    if statements_in(body) - (loop.number is not None) > _MOST_STATEMENTS:
        return f"more than {_MOST_STATEMENTS} statements"
    inside = list(body.walk())
    if body.effects() & Effect.LEAVE or any(each.name in LOOPS for each in inside):
        return "statements other than assignments and conditions"
    calls = [each for each in inside if affects_others(each)]
    if calls:
        read = {value for each in inside for value in each.operands}
        if any(not read.intersection(each.results) for each in calls):
            return "statements other than assignments and conditions"
        return "a call that may affect other threads"
    if loop.counter.type not in _SIGNED or _source(loop.stop).type not in _SIGNED:
        return "the counter or the end is not a signed integer"
    loads = [each for each in inside if each.name == "array.load"]
    if not loads:
        return "no load of an element"
    return f"more than {_MOST_LOADS} loads" if len(loads) > _MOST_LOADS else None


def _is_short(loop: _Loop, known: Mapping[Value, Interval], forms: LinearForms) -> bool:
    """Return whether a loop ends a few strides after its start, and a few numbers beyond them."""
    stop, step = forms.form(loop.stop), forms.form(loop.step)
    if stop is None or step is None or known.get(loop.start, (-1, 0))[0] < 0:
        return False
    rests = (stop - step.scale(strides) for strides in range(_TURNS))
    return any(not rest.terms and 0 <= rest.constant <= _MOST_BEYOND for rest in rests)


def _is_stepped_along_x(loop: _Loop) -> bool:
    """Return whether a block's first extent is the stride.

    A block is longer along x than a border, so few of its threads have a second iteration. A blur
    of rows takes 7 % more time on an H200 with its tests than as a plain loop.
    """
    step = _source(loop.step).owner
    return isinstance(step, Operation) and step.name == "blockDim.x"


def _source(value: Value) -> Value:
    """Return what a value was converted from."""
    while isinstance(value.owner, Operation) and value.owner.name == "cast":
        (value,) = value.owner.operands
    return value


def _is_invariant(value: Value, loop: Operation, inner: set[Value]) -> bool:
    """Return whether a value is the same in each iteration."""
    inside = {each for region in loop.regions for each in region.walk()}
    return not any(
        each in inner or (each.owner in inside and each.owner.name not in INVARIANT)
        for each in made_of(value)
    )


class _Writer(Builder):
    def __init__(
        self,
        typing: Typing,
        known: Mapping[Value, Interval],
        short: Mapping[Operation, list[Operation]],
    ) -> None:
        super().__init__(typing)
        self._known = known
        #: Loops with few iterations, and their loads that may be moved before all stores.
        self._short = short

    def written(self, loop: _Loop) -> list[Operation]:
        """Return what takes the place of a loop."""
        operation, self.operations, self.place = loop.operation, [], loop.operation.place
        stop, step = (self._outside(value, operation) for value in (loop.stop, loop.step))
        stop, step = self.cast(stop), self.cast(step)
        if loop.number is None:
            self._for(loop, stop, step)
        else:
            self._while(loop, stop, step)
        return self.operations

    def _tests(self, loop: _Loop, stop: Value, step: Value) -> list[Value]:
        """Write the tests of what is not known of an end and a stride."""
        tests = []
        if self._known.get(loop.stop, (-1, 0))[0] < 0:
            tests.append(self.numba(operator.le, self.constant(0), stop))
            if loop.number is None:
                tests.append(self.numba(operator.le, stop, self.constant(_LARGEST_END)))
        if constant_number(loop.step) is None:
            most = self._known.get(loop.step, (0, _LARGEST_STEP + 1))[1]
            if most > _LARGEST_STEP:
                tests.append(self.numba(operator.le, step, self.constant(_LARGEST_STEP)))
        return tests

    def _while(self, loop: _Loop, stop: Value, step: Value) -> None:
        operation, number = loop.operation, loop.number
        assert number is not None
        given = list(operation.operands)

        def turns() -> list[Value]:
            return self._turns(given, number, loop, stop, step)

        tests = self._tests(loop, stop, step)
        if tests:
            operation.operands = self._either(self._all(tests), turns, lambda: given)
        else:
            operation.operands = turns()
        self.operations.append(operation)

    def _all(self, tests: list[Value]) -> Value:
        return reduce(lambda one, two: self.numba(operator.and_, one, two), tests)

    def _for(self, loop: _Loop, stop: Value, step: Value) -> None:
        operation = loop.operation
        carried = list(operation.operands[3:])

        def counted() -> list[Value]:
            variables = [self.cast(loop.start), *carried]
            if self._short.get(operation):
                return self._tested(variables, loop, stop, step)[1:]
            if operation not in self._short:
                variables = self._turns(variables, 0, loop, stop, step)
            return self._rest(variables, loop, stop, step)[1:]

        def other() -> list[Value]:
            rolled = clone(operation, {})
            rolled.attributes["unroll"] = NOT_UNROLLED
            self.operations.append(rolled)
            return rolled.results

        tests = self._tests(loop, stop, step)
        if tests:
            found = self._either(self._all(tests), counted, other)
        else:
            found = counted()
        self._become(operation.results, found)

    def _become(self, results: list[Value], found: list[Value]) -> None:
        """Give the results of a loop to what is read after it."""
        if not results:
            return
        regions = [Region.of([], *found), Region.of([], *found)]
        branch = Operation("if", [self.constant(True, types.boolean)], (), None, regions)
        self.operations.append(branch.take_results(results))

    # -- loops ------------------------------------------------------------------------------------

    def _turns(
        self, given: list[Value], number: int, loop: _Loop, stop: Value, step: Value
    ) -> list[Value]:
        """Write what runs four iterations at a time; return the variables after it."""
        ahead = self.numba(operator.mul, self.constant(_TURNS - 1), step)
        last = self.numba(operator.sub, stop, ahead)

        def four(variables: list[Value]) -> list[Value]:
            hidden = self._hidden(self.cast(variables[number]))
            first = [*variables[:number], hidden, *variables[number + 1 :]]
            kinds = tuple(value.type for value in first)
            body = Region((_INT64, *kinds))
            bounds = [self.constant(each) for each in (0, _TURNS, 1)]
            self._within(body, lambda: self._iteration(body.arguments[1:], number, loop, step))
            attributes = {"unroll": FULLY_UNROLLED}
            return self.operation("for", [*bounds, *first], kinds, attributes, [body]).results

        return self._loop(given, number, last, four)

    def _tested(self, given: list[Value], loop: _Loop, stop: Value, step: Value) -> list[Value]:
        """Write what runs four iterations at a time, each if it is before the end.

        Their loads come before their stores.
        """
        loads = self._short[loop.operation]

        def four(variables: list[Value]) -> list[Value]:
            counters = [self._masked(variables[0], stop)]
            for _ in range(_TURNS - 1):
                counters.append(self.numba(operator.add, counters[-1], step))
            tests = [self.numba(operator.lt, each, stop) for each in counters[1:]]

            def loaded(counter: Value) -> list[Value]:
                values = {loop.counter: self.cast(counter, loop.counter.type)}
                copies = clone_inside(_part_of(loop, loads[-1]), values)
                self.operations += copies.operations
                return [values[each.result] for each in loads]

            def stored(counter: Value, found: list[Value]) -> list[Value]:
                values = {loop.counter: self.cast(counter, loop.counter.type)}
                values.update(zip((each.result for each in loads), found, strict=True))
                self.operations += clone_inside(_part_of(loop, without=loads), values).operations
                return []

            def nothing() -> list[Value]:
                return [self.cast(self.constant(0), each.result.type) for each in loads]

            found = [loaded(counters[0])]
            for test, counter in zip(tests, counters[1:], strict=True):
                found.append(self._either(test, partial(loaded, counter), nothing))
            stored(counters[0], found[0])
            for test, counter, each in zip(tests, counters[1:], found[1:], strict=True):
                self._either(test, partial(stored, counter, each), list)
            return [self.numba(operator.add, counters[-1], step)]

        return self._loop(given, 0, stop, four)

    def _hidden(self, counter: Value) -> Value:
        return self.operation(HIDDEN, [counter], (_INT64,)).result

    def _masked(self, counter: Value, stop: Value) -> Value:
        """Return a counter that is known to be small, as one before the end is.

        LLVM steps no addresses by it, and PTX that is computed from it is in 32 bits.
        """
        most = self._known.get(stop, (0, _LARGEST_END))[1]
        if not 0 < most <= _SMALL:
            return counter
        mask = self.constant((1 << most.bit_length()) - 1)
        return self.numba(operator.and_, self._hidden(counter), mask)

    def _rest(self, given: list[Value], loop: _Loop, stop: Value, step: Value) -> list[Value]:
        return self._loop(given, 0, stop, lambda found: self._iteration(found, 0, loop, step))

    def _loop(self, given: list[Value], number: int, end: Value, body_of: Any) -> list[Value]:
        kinds = tuple(value.type for value in given)
        before, body = Region(kinds), Region(kinds)
        for arguments in (before.arguments, body.arguments):
            for value, argument in zip(given, arguments, strict=True):
                argument.name = value.name
        self._within(before, lambda: [self.numba(operator.lt, before.arguments[number], end)])
        self._within(body, lambda: body_of(body.arguments))
        return self.operation("while", given, kinds, None, [before, body]).results

    def _iteration(
        self, variables: list[Value], number: int, loop: _Loop, step: Value
    ) -> list[Value]:
        """Write a copy of the loop's body; return the variables after it."""
        body = loop.operation.regions[-1]
        if loop.number is None:
            counter = self.cast(variables[number], loop.counter.type)
            values = dict(zip(body.arguments, [counter, *variables[1:]], strict=True))
        else:
            values = dict(zip(body.arguments, variables, strict=True))
        copies = clone_inside(body, values)
        *operations, last = copies.operations
        self.operations += operations
        following = list(last.operands)
        if loop.number is None:
            following.insert(0, self.numba(operator.add, variables[number], step))
        return following

    # -- operations -------------------------------------------------------------------------------

    def _outside(self, value: Value, loop: Operation) -> Value:
        """Return a value of a loop that is the same in each iteration, computed before it."""
        inside = {each for region in loop.regions for each in region.walk()}
        values: dict[Value, Value] = {}

        def copy(each: Value) -> None:
            made = each.owner
            if made not in inside or each in values:
                return
            assert isinstance(made, Operation)
            for operand in made.operands:
                copy(operand)
            self.operations.append(clone(made, values))

        copy(value)
        return values.get(value, value)

    def _either(self, test: Value, one: Any, other: Any) -> list[Value]:
        yes, no = Region(), Region()
        found = [self._within(region, read) for region, read in ((yes, one), (no, other))]
        kinds = tuple(value.type for value in found[0])
        return self.operation("if", [test], kinds, None, [yes, no]).results

    def _within(self, region: Region, read: Any) -> list[Value]:
        outer, self.operations = self.operations, region.operations
        found: list[Value] = list(read())
        self.operation("yield", found)
        self.operations = outer
        return found


def _part_of(
    loop: _Loop, last: Operation | None = None, *, without: Collection[Operation] = ()
) -> Region:
    """Return the operations of a loop up to the last one, or all but some. They need no end."""
    *operations, _ = loop.operation.regions[-1].operations
    if last is not None:
        operations = operations[: operations.index(last) + 1]
        operations = [each for each in operations if each.name != "array.store"]
    return Region((), (each for each in operations if each not in without))
