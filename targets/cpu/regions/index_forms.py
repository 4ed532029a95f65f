"""Integers of a loop as its index plus numbers that are the same in all iterations.

Integers wrap, so a guard says something of the index only with care. ``index + a < r`` says of
int64 what it says of integers if ``a`` is small, because sums wrap in the same way in any
order. Then ``r - a``, which saturates instead of wrapping, is a bound of the index. If nothing
is known of ``a``, the bound holds on the assumption that ``a`` is small, which is tested.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from numba import types

from kerneldsl.ir.operations import Operation, Value
from kerneldsl.ir.ranges import Interval, interval_in
from kerneldsl.ir.recognize import (
    MIRRORED,
    comparison_of,
    constant_number,
    operands_of,
    operator_of,
    parts_of,
)
from kerneldsl.utilities.dataclasses import dataclass
from targets.cpu.regions.loop_writer import LoopWriter

__all__ = ["SMALL", "Bounds", "Comparison", "Form", "IndexForms"]

#: Limit of numbers for which a sum of two, or of an index and one, does not overflow int64.
SMALL = 2**62


@dataclass(frozen=True)
class Form:
    """``factor * index + terms + constant``, as int64 that wraps."""

    factor: int
    #: Values that all iterations share, with their factors.
    terms: Mapping[Value, int]
    constant: int

    def plus(self, other: Form, sign: int = 1) -> Form:
        """Return the sum, or the difference."""
        terms = dict(self.terms)
        for value, factor in other.terms.items():
            terms[value] = terms.get(value, 0) + sign * factor
        terms = {value: factor for value, factor in terms.items() if factor}
        constant = self.constant + sign * other.constant
        return Form(self.factor + sign * other.factor, terms, constant)

    @property
    def rest(self) -> Form:
        """The form without the index."""
        return Form(0, self.terms, self.constant)

    def write(self, make: LoopWriter) -> Value:
        """Write the operations that compute it; it is without the index."""
        total: Value | None = None
        for value, factor in sorted(self.terms.items(), key=lambda each: each[1] < 0):
            each = make.cast(value)
            if abs(factor) != 1:
                each = make.numba(operator.mul, each, make.constant(abs(factor)))
            if total is None:
                total = each if factor > 0 else make.numba(operator.neg, each)
            else:
                total = make.numba(operator.add if factor > 0 else operator.sub, total, each)
        if total is None:
            return make.constant(self.constant)
        if self.constant:
            total = make.numba(operator.add, total, make.constant(self.constant))
        return total


class Comparison(NamedTuple):
    """A comparison of two integers."""

    function: Any
    one: Form
    two: Form


class Bounds:
    """Bounds of a loop's index for conditions to hold, and what must hold beside."""

    def __init__(self) -> None:
        #: Limits, each the difference of two forms and an addend.
        self.lows: list[tuple[Form, Form, int]] = []
        self.highs: list[tuple[Form, Form, int]] = []
        #: Forms that must be small.
        self.assumed: list[Form] = []
        #: Values, with the truth that they must have, and comparisons without the index.
        self.conditions: list[tuple[Value, bool] | Comparison] = []

    def add(self, other: Bounds) -> None:
        """Add what other conditions need."""
        for name in ("lows", "highs", "assumed", "conditions"):
            mine = getattr(self, name)
            mine += [each for each in getattr(other, name) if each not in mine]

    def write_limits(self, make: LoopWriter) -> tuple[list[Value], list[Value]]:
        """Write the least indices, and those after the largest ones."""

        def limit(one: Form, two: Form, more: int) -> Value:
            if not (one.terms or two.terms):
                number = one.constant - two.constant + more
                return make.constant(max(min(number, 2**63 - 1), -(2**63)))
            written = one.write(make)
            if two.terms or two.constant:
                written = make.difference(written, two.write(make))
            return make.following(written) if more else written

        return [limit(*each) for each in self.lows], [limit(*each) for each in self.highs]

    def write_within(self, make: LoopWriter, low: Value, high: Value) -> tuple[Value, Value]:
        """Write the part of a range that is within the limits."""
        lows, highs = self.write_limits(make)
        for each in lows:
            low = make.larger(low, each)
        for each in highs:
            high = make.smaller(high, each)
        return low, high

    def write_assumptions(self, make: LoopWriter) -> list[Value]:
        return [make.is_within(each.write(make), SMALL // 2) for each in self.assumed]

    def write_conditions(self, make: LoopWriter) -> list[Value]:
        """Write tests of the other conditions."""
        found = []
        for each in self.conditions:
            if isinstance(each, Comparison):
                found.append(make.numba(each.function, each.one.write(make), each.two.write(make)))
            else:
                value, truth = each
                found.append(value if truth else make.opposite(value))
        return found


class IndexForms:
    """Forms of the integers in a loop.

    `index` is the loop's, `inside` are the values that are defined in it, and `known` has intervals
    of values. `same` has values that are taken for others.
    """

    def __init__(
        self, index: Value, inside: Collection[Value], known: Mapping[Value, Interval]
    ) -> None:
        self.index = index
        self.inside = inside
        self.known = known
        self.same: dict[Value, Value] = {}
        self._forms: dict[Value, Form | None] = {}

    def is_shared(self, value: Value) -> bool:
        """Return whether all iterations have the same value."""
        return value is not self.index and value not in self.inside

    def form(self, value: Value) -> Form | None:
        value = self.same.get(value, value)
        if value not in self._forms:
            self._forms[value] = self._form(value)
        return self._forms[value]

    def _form(self, value: Value) -> Form | None:
        kind = value.type
        if not isinstance(kind, types.Integer) or kind == types.uint64:
            return None
        number = constant_number(value)
        if number is not None:
            return Form(0, {}, number)
        if value is self.index:
            return Form(1, {}, 0)
        if self.is_shared(value):
            return Form(0, {value: 1}, 0)
        made = value.owner
        if not isinstance(made, Operation) or kind != types.int64:
            return None
        if made.name == "cast":
            return self.form(made.operands[0])
        forms = [self.form(each) for each in operands_of(made)]
        function = operator_of(made)
        match forms:
            case [Form() as one] if function is operator.neg and made.operands[0].type == kind:
                return Form(0, {}, 0).plus(one, -1)
            case [Form() as one, Form() as two]:
                if function is operator.add:
                    return one.plus(two)
                if function is operator.sub:
                    return one.plus(two, -1)
        return None

    # -- conditions -------------------------------------------------------------------------------

    def bounds_of(
        self, condition: Value, *, truth: bool = True, is_enough: bool = False
    ) -> Bounds | None:
        """Return what must hold for a condition to be true, or false; ``None`` if it is no bound.

        With `is_enough`, it need not hold wherever the condition does. An index that is not a
        constant is then greater, and one that is not another limit is less.
        """
        bounds = Bounds()
        for value, is_true in parts_of(condition, truth, self.is_shared):
            found = self._bounds_of(value, is_true, is_enough)
            if found is None:
                return None
            bounds.add(found)
        return bounds

    def _bounds_of(self, condition: Value, truth: bool, is_enough: bool) -> Bounds | None:
        if self.is_shared(condition):
            bounds = Bounds()
            bounds.conditions.append((condition, truth))
            return bounds
        found = comparison_of(condition, truth)
        if found is None:
            return None
        function, operands = found
        if function is operator.eq and (quotient := self._quotient(*operands)) is not None:
            return quotient
        one, two = map(self.form, operands)
        if one is None or two is None:
            return None
        test = Comparison(function, one, two)
        return self.compared(test, is_enough=is_enough)

    def _quotient(self, value: Value, number: Value) -> Bounds | None:
        """Return what must hold for a quotient of the index and a constant to be a constant."""
        made, result = value.owner, constant_number(number)
        if not isinstance(made, Operation) or operator_of(made) is not operator.floordiv:
            return None
        dividend, divisor = self.form(made.operands[0]), constant_number(made.operands[1])
        if dividend is None or not divisor or divisor < 0 or result is None:
            return None
        bounds = Bounds()
        for function, limit in ((operator.ge, result), (operator.lt, result + 1)):
            found = self.compared(Comparison(function, dividend, Form(0, {}, limit * divisor)))
            if found is None or abs(limit * divisor) > SMALL:
                return None
            bounds.add(found)
        return bounds

    def compared(self, test: Comparison, *, is_enough: bool = False) -> Bounds | None:
        """Return what must hold for a comparison."""
        function, one, two = test
        factor = one.factor - two.factor
        bounds = Bounds()
        if factor == 0:
            if one.factor:
                return None
            bounds.conditions.append(test)
            return bounds
        if abs(factor) != 1:
            return None
        if two.factor:
            one, two, function = two, one, MIRRORED[function]
        if function is operator.ne and is_enough:
            function = operator.lt if two.terms else operator.gt
        if abs(one.factor) != 1 or two.factor:
            return None
        rest = one.rest
        if not self._is_small(rest):
            bounds.assumed.append(rest)
        if one.factor < 0:
            # rest - index < two, so the index is greater than the difference of the two.
            function = MIRRORED[function]
            first, second = rest, two
        else:
            first, second = two, rest
        limits = {
            operator.lt: (bounds.highs, 0),
            operator.le: (bounds.highs, 1),
            operator.gt: (bounds.lows, 1),
            operator.ge: (bounds.lows, 0),
        }
        if function is operator.eq:
            bounds.lows.append((first, second, 0))
            bounds.highs.append((first, second, 1))
            return bounds
        if function not in limits:
            return None
        found, more = limits[function]
        found.append((first, second, more))
        return bounds

    def _is_small(self, form: Form) -> bool:
        low = high = form.constant
        for value, factor in form.terms.items():
            ends = [factor * end for end in interval_in(self.known, value)]
            low, high = low + min(ends), high + max(ends)
        return low >= -SMALL and high <= SMALL
