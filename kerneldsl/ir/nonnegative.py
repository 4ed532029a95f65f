"""Find which indices are never negative: from intervals, conditions around an access, and loops.

An index is a sum of atoms with integer factors. An atom is a value that is no sum, such as an
extent. Conditions of branches and loops around an access are facts of such sums. Each value is
assigned once, so a fact holds in the whole region that it was found for.

Signed arithmetic of 64 bits is taken not to overflow, as in C, except that of
:mod:`kerneldsl.ir.overflow`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from numba import types

from kerneldsl.analysis.interval_arithmetic import interval_of
from kerneldsl.ir.linear_forms import Fact, Linear, LinearForms, lower_bound
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.ir.overflow import overflowing_values
from kerneldsl.ir.ranges import Interval, interval_in, ranges_of
from kerneldsl.ir.recognize import (
    ACCESSES,
    comparison_of,
    constant_number,
    indices_of,
    operands_of,
    operator_of,
    parts_of,
)

__all__ = ["mark_indices", "nonnegative_values"]

#: Steps of one search through the facts; more than any kernel seen so far needs.
_MAX_STEPS = 400
_COMPARISONS = {
    operator.lt: (-1, True),
    operator.le: (-1, False),
    operator.gt: (1, True),
    operator.ge: (1, False),
}
_LEAST, _GREATEST = -(2**63), 2**63 - 1
#: Upper bounds of indices.
_BELOW = {"threadIdx": "blockDim", "blockIdx": "gridDim", "grid": "gridsize"}


def mark_indices(function: Function, *, wraparound: bool) -> None:
    """Mark the indices that are not negative: no wraparound is compiled for them.

    Without `wraparound` the user promises it of all.
    """
    accesses = (each for each in function.body.walk() if each.name in ACCESSES)
    wanted = {each: indices_of(each) for each in accesses}
    if not wraparound:
        for each, indices in wanted.items():
            each.attributes["nonnegative"] = (True,) * len(indices)
        return
    for each, marks in nonnegative_values(function, wanted).items():
        each.attributes["nonnegative"] = marks


def nonnegative_values(
    function: Function, wanted: Mapping[Operation, list[Value]]
) -> dict[Operation, tuple[bool, ...]]:
    """Return for some values that operations use whether they are never negative there."""
    overflowing = overflowing_values(function.body) if wanted else ()
    known = ranges_of(function, overflowing=overflowing) if wanted else {}
    marks = {
        each: tuple(interval_in(known, value)[0] >= 0 for value in values)
        for each, values in wanted.items()
    }
    if not all(map(all, marks.values())):
        _Proofs(known, wanted, marks, overflowing).region(function.body, None)
    return marks


class _Scope(NamedTuple):
    """Facts of a region, made when they are needed first, and those around it."""

    make: Callable[[_Scope | None], Iterator[Fact]]
    outer: _Scope | None
    #: The facts that have been made.
    made: list[Fact | None]


def _facts(scope: _Scope | None) -> list[Fact]:
    found: list[Fact] = []
    while scope is not None:
        if not scope.made:
            scope.made.append(None)
            scope.made.extend(scope.make(scope.outer))
        found += [each for each in scope.made if each is not None]
        scope = scope.outer
    return found


class _Proofs(LinearForms):
    def __init__(
        self,
        known: Mapping[Value, Interval],
        wanted: Mapping[Operation, list[Value]],
        marks: dict[Operation, tuple[bool, ...]],
        overflowing: Container[Value],
    ) -> None:
        super().__init__(overflowing)
        self.known = known
        self.wanted = wanted
        self.marks = marks
        self._open: set[str] = set()
        self._steps_left = 0

    # -- regions ----------------------------------------------------------------------------------

    def region(self, region: Region, scope: _Scope | None) -> None:
        """Mark the values that a region's operations use."""
        for operation in region.operations:
            if operation in self.wanted:
                pairs = zip(self.marks[operation], self.wanted[operation], strict=True)
                self.marks[operation] = tuple(
                    is_marked or self.is_nonnegative(value, scope) for is_marked, value in pairs
                )
            if operation.regions:
                scope = self.inner(operation, scope)

    def inner(self, operation: Operation, scope: _Scope | None) -> _Scope | None:
        """Mark the values in an operation; return what holds after it."""
        match operation.name:
            case "if":
                condition = operation.operands[0]
                for region, truth in zip(operation.regions, (True, False), strict=True):
                    made = partial(self.assumed, condition, truth)
                    self.region(region, _Scope(made, scope, []))
                left = [region.is_left for region in operation.regions]
                if left[0] != left[1]:
                    made = partial(self.assumed, condition, not left[0])
                    return _Scope(made, scope, [])
            case "while":
                before, body = operation.regions
                carried = partial(self.carried, operation.operands, before, body)
                scope_of_loop = _Scope(carried, scope, [])
                self.region(before, scope_of_loop)
                condition = before.yielded[0]
                made = partial(self.assumed, condition, True)
                self.region(body, _Scope(made, scope_of_loop, []))
                return _Scope(partial(self.ended, operation, condition), scope, [])
            case "for":
                (body,) = operation.regions
                made = partial(self.counted, operation)
                self.region(body, _Scope(made, scope, []))
            case _:
                for region in operation.regions:
                    self.region(region, scope)
        return scope

    # -- facts ------------------------------------------------------------------------------------

    def assumed(self, condition: Value, truth: bool, scope: _Scope | None) -> Iterator[Fact]:
        """Yield what follows from a condition that is true, or false."""
        for part, is_true in parts_of(condition, truth):
            made = part.owner
            if (found := comparison_of(part, is_true)) is not None:
                function, operands = found
                first, second = map(self.form, operands)
                if first is not None and second is not None:
                    yield from self.compared(function, first - second, scope)
            elif is_true and isinstance(made, Operation) and operator_of(made) is bool:
                form = self.form(made.operands[0])
                if form is not None:
                    yield from self.unequal(form, scope)

    def compared(self, function: Any, difference: Linear, scope: _Scope | None) -> Iterator[Fact]:
        if function in _COMPARISONS:
            sign, is_strict = _COMPARISONS[function]
            yield Fact(difference.scale(sign), is_strict)
        elif function is operator.eq:
            yield Fact(difference)
            yield Fact(difference.scale(-1))
        else:
            yield from self.unequal(difference, scope)

    def unequal(self, difference: Linear, scope: _Scope | None) -> Iterator[Fact]:
        for form in (difference, difference.scale(-1)):
            if self.lower_of_form(form, scope) == 0:
                yield Fact(form, is_strict=True)

    def carried(
        self, given: list[Value], before: Region, body: Region, scope: _Scope | None
    ) -> Iterator[Fact]:
        """Yield what holds of the variables of a loop: those that never fall, or never rise."""
        if body.is_left:
            return
        for first, one, two, last in zip(
            given, before.arguments, body.arguments, body.yielded, strict=False
        ):
            yield from self.equal(one, two)
            yield from self.monotone(first, two, last)

    def monotone(self, first: Value, argument: Value, last: Value) -> Iterator[Fact]:
        forms = [self.form(value) for value in (first, argument, last)]
        if None in forms:
            return
        start, here, following = forms
        assert start is not None
        assert here is not None
        assert following is not None
        step = following - here
        for sign in (1, -1):
            if self.interval_low(step.scale(sign)) >= 0:
                yield Fact((here - start).scale(sign))

    def equal(self, one: Value, two: Value) -> Iterator[Fact]:
        first, second = self.form(one), self.form(two)
        if first is not None and second is not None and first != second:
            yield Fact(first - second)
            yield Fact(second - first)

    def ended(self, operation: Operation, condition: Value, scope: _Scope | None) -> Iterator[Fact]:
        """Yield what holds after a loop: its condition is false for the results."""
        before = operation.regions[0]
        names = {
            self.name(argument): self.form(result)
            for argument, result in zip(before.arguments, operation.results, strict=True)
            if isinstance(argument.type, types.Integer)
        }
        for fact in self.assumed(condition, False, scope):
            form = fact.form
            for name, other in names.items():
                if other is not None:
                    form = form.substitute(name, other)
            yield Fact(form, fact.is_strict)

    def counted(self, operation: Operation, scope: _Scope | None) -> Iterator[Fact]:
        """Yield what holds in a loop over a range."""
        (body,) = operation.regions
        start, stop, step, *given = operation.operands
        arguments = body.arguments[1:]
        for first, argument, last in zip(given, arguments, body.yielded, strict=False):
            yield from self.monotone(first, argument, last)
        counter, begin, end = (self.form(v) for v in (body.arguments[0], start, stop))
        if counter is None or begin is None or end is None:
            return
        low = self.lower(step, scope)
        if low is not None and low >= 0:
            yield Fact(counter - begin)
            yield Fact(end - counter, is_strict=True)
        elif (constant_number(step) or 0) < 0:
            yield Fact(begin - counter)
            yield Fact(counter - end, is_strict=True)

    # -- bounds -----------------------------------------------------------------------------------

    def is_nonnegative(self, value: Value, scope: _Scope | None) -> bool:
        """Return whether an integer is never negative where a scope holds."""
        low = self.lower(value, scope)
        return low is not None and low >= 0

    def lower(self, value: Value, scope: _Scope | None) -> int | None:
        """Return a number that a value is never below."""
        own = interval_in(self.known, value)[0]
        if own >= 0:
            return own
        form = self.form(value)
        return None if form is None else self.lower_of_form(form, scope)

    def lower_of_form(self, form: Linear, scope: _Scope | None) -> int | None:
        if not form.terms:
            return form.constant

        def bound_of_atom(atom: str) -> int | None:
            if atom in self._open:
                return None  # facts may lead from an atom to itself
            self._open.add(atom)
            try:
                return self.own_lower(self.atoms[atom], scope)
            finally:
                self._open.discard(atom)

        facts = _facts(scope)
        if not self._open:
            self._steps_left = _MAX_STEPS
        facts += [fact for atom in form.atoms for fact in self.natural(atom)]
        return lower_bound(form, facts, bound_of_atom, self._may_go_on)

    def _may_go_on(self) -> bool:
        self._steps_left -= 1
        return self._steps_left > 0

    def natural(self, atom: str) -> Iterator[Fact]:
        """Yield what always holds of an atom."""
        value = self.atoms[atom]
        made = value.owner
        if not isinstance(made, Operation):
            return
        function = operator_of(made)
        if function in (min, max):
            this, sign = Linear.of({atom: 1}), 1 if function is max else -1
            for each in operands_of(made):
                form = self.form(each)
                if form is not None:
                    yield Fact((this - form).scale(sign))
        stem = made.name.partition(".")[0]
        if stem in _BELOW:
            above = atom.replace(stem, _BELOW[stem], 1)
            if above in self.atoms:
                yield Fact(Linear.of({above: 1, atom: -1}, -1))

    def interval_low(self, form: Linear) -> int:
        """Return a number that a form is never below, from intervals alone."""
        total = form.constant
        for atom, factor in form.terms:
            value = self.atoms[atom]
            total += min(factor * end for end in interval_in(self.known, value))
        return total

    def own_lower(self, value: Value, scope: _Scope | None) -> int | None:
        """Return a bound that follows from the operation that made a value."""
        low = interval_in(self.known, value)[0]
        if low >= 0:
            return low
        made = value.owner
        found: int | None = None
        if isinstance(made, Operation) and value not in self.overflowing:
            if made.name == "if":
                number = made.results.index(value)
                found = self.of_branches(made, number, scope)
            else:
                function = operator_of(made)
                if function is not None:
                    found = self.of_operator(function, operands_of(made), scope)
                elif made.name == "cast" and isinstance(made.operands[0].type, types.Integer):
                    found = self.lower(made.operands[0], scope)
        found = low if found is None else max(found, low)
        return found if found > _LEAST else None

    def of_branches(self, made: Operation, number: int, scope: _Scope | None) -> int | None:
        lows = []
        for region, truth in zip(made.regions, (True, False), strict=True):
            if region.is_left:
                continue
            inner = _Scope(partial(self.assumed, made.operands[0], truth), scope, [])
            lows.append(self.lower(region.yielded[number], inner))
        return None if None in lows else min(each for each in lows if each is not None)

    def of_operator(self, function: Any, operands: list[Value], scope: _Scope | None) -> int | None:
        if not all(isinstance(each.type, types.Integer | types.Boolean) for each in operands):
            return None
        lows = [self.lower(each, scope) for each in operands]
        if function is abs:
            # The magnitude of the least number of a type is that number.
            return 0 if lows[0] is not None and lows[0] > operands[0].type.minval else None
        if len(lows) < 2:
            return None
        if (count := _KEEP_SIGNS.get(function)) is not None:
            return 0 if all(low is not None and low >= 0 for low in lows[:count]) else None
        ends = []
        for value, low in zip(operands, lows, strict=True):
            _, high = self.known.get(value, (_LEAST, _GREATEST))
            ends.append((_LEAST if low is None else low, high if low is None else max(low, high)))
        return interval_of(function, ends)[0]


#: Functions that keep nonnegative numbers nonnegative, with the number of operands that matter.
_KEEP_SIGNS = {operator.lshift: 1, operator.pow: 2}
