"""Integers that may overflow, though arithmetic of indices is taken not to: those of hashes.

Products of a few extents and coordinates do not overflow int64. A product may overflow if

- a literal factor is 65,536 or more, or all together are 2**32, or a left shift of a variable has
  16 bits or more,
- one value is a factor of it four times or more, as in ``i ** 13``, or
- a loop multiplies a variable in each iteration, as ``h = h * 31 + x[k]`` does, or adds variables
  that it computes from each other, as ``h += h >> 1`` and ``a, b = b, a + b`` do.

The condition of a loop, ``h < n``, keeps a variable small that is not negative. `n` must not grow
in the loop, and what one iteration multiplies the variable by must not be too much. An `n` of at
most 31 bits permits 31 more. An unknown one permits a factor of 4, and a larger literal none.

A mean, as ``(low + high) // 2`` or ``low + (high - low) // 2``, does not grow: it is between both.

A conversion to a smaller type keeps a number that fits where coordinates and extents have at most
31 bits. So ``np.int32(kd.grid(1))`` does not overflow, and ``np.int8(kd.grid(1))`` may. A uint64
beside an int64 is converted to int64, so ``i + u`` may overflow unless `u` is known to be small.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from functools import cache

from numba import types

from kerneldsl.ir.operations import (
    LOOPS,
    Operation,
    Region,
    Value,
    carried_arguments,
    ends_of,
    handed_on,
)
from kerneldsl.ir.ranges import INTERVALS, Interval, interval_in, limits_of, ranges_of_region
from kerneldsl.ir.recognize import (
    BINARY,
    comparison_of,
    constant_number,
    operands_of,
    operator_of,
    parts_of,
    reached,
    sources_of,
)

__all__ = ["overflowing_values"]

#: The least literal factor of a hash, the least bits of its shifts, and the least power of a value.
_FACTOR, _BITS, _POWER = 1 << 16, 16, 4
#: The least bits of all literal factors of a hash together.
_BITS_OF_FACTORS = 32
#: Factors that are counted for one value.
_MOST_FACTORS = 16
_ADDITIONS = (operator.add, operator.sub, operator.or_, operator.xor)
_SUMS = (*_ADDITIONS, operator.neg, abs, max)
_LEAST = (min, operator.and_)
_QUOTIENTS = (operator.floordiv, operator.rshift)
_PRODUCTS = (operator.mul, operator.lshift, operator.pow)
#: Position of the operand that a comparison says is the smaller one.
_LESS = {operator.lt: 0, operator.le: 0, operator.gt: 1, operator.ge: 1}
#: Bits of extents, and those that a number below an unknown limit may get in an iteration.
_BITS_OF_EXTENTS, _BITS_OF_UNKNOWN = 31, 2
#: Coordinates and extents of at most 31 bits.
_SMALL: dict[str, Interval] = {
    **INTERVALS,
    **dict.fromkeys(("grid", "gridsize", *(f"extent.{axis}" for axis in "xyz")), (0, 2**31 - 1)),
    **dict.fromkeys(("array.extent", "array.size"), (0, 2**31 - 1)),
    **{f"{name}.{axis}": (0, 2**21 - 1) for name in ("blockIdx", "gridDim") for axis in "xyz"},
}


def overflowing_values(region: Region) -> frozenset[Value]:
    """Return the results of arithmetic and conversions in a region that may overflow."""
    known = cache(lambda: ranges_of_region(region, _SMALL))
    intended = cache(lambda: ranges_of_region(region, _SMALL, overflowing=()))
    powers = _Powers()
    found: set[Value] = set()
    #: Results, with a value that must be in an interval for them not to overflow.
    uncertain: list[tuple[Value, Value, Interval]] = []
    for operation in region.walk():
        for value in _narrowed(operation):
            uncertain.append((operation.result, value, limits_of(operation.result.type)))
        if operation.name in LOOPS and operation.results:
            found.update(_grown_in(operation, known, intended))
        elif operator_of(operation) in _PRODUCTS and _is_integer(operation.result):
            if _has_a_large_factor(operation) or powers.are_large(operation.result):
                found.add(operation.result)
            elif _is_shift_by_a_variable(operation):
                uncertain.append((operation.result, operands_of(operation)[-1], (0, _BITS - 1)))
    for result, value, (least, most) in uncertain:
        low, high = interval_in(known(), value)
        if low < least or most < high:
            found.add(result)
    return frozenset(found)


def _narrowed(operation: Operation) -> list[Value]:
    """Return the integers that an operation converts to a type that has not all their values.

    Numba takes a uint64 beside an int64 for an int64.
    """
    is_operator = operator_of(operation) in BINARY
    if not (is_operator or operation.name == "cast") or not _is_integer(operation.result):
        return []
    kind = operation.result.type
    if is_operator and not kind.signed:
        return []
    given = [value for value in operands_of(operation) if _is_integer(value)]
    return [v for v in given if v.type.minval < kind.minval or kind.maxval < v.type.maxval]


def _is_shift_by_a_variable(product: Operation) -> bool:
    numbers = map(constant_number, operands_of(product))
    return operator_of(product) is operator.lshift and all(each is None for each in numbers)


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, types.Integer)


def _has_a_large_factor(product: Operation) -> bool:
    function, numbers = operator_of(product), list(map(constant_number, operands_of(product)))
    if function is operator.lshift:
        return (numbers[1] or 0) >= _BITS
    return function is operator.mul and any(abs(each or 0) >= _FACTOR for each in numbers)


#: Factors of a value with their powers; for ``None``, the bits of all literals among them.
_Factors = Mapping[Value | None, float]


class _Powers:
    """Powers of values in the products that others are."""

    def __init__(self) -> None:
        self._known: dict[Value, _Factors] = {}

    def are_large(self, product: Value) -> bool:
        """Return whether a product has a high power, or its literal factors are large together."""
        found = dict(self.of(product))
        return found.pop(None, 0) >= _BITS_OF_FACTORS or max(found.values(), default=0) >= _POWER

    def of(self, value: Value) -> _Factors:
        """Return the factors of a value."""
        found = self._known.get(value)
        if found is None:
            found = self._of(value)
            if len(found) > _MOST_FACTORS:
                found = {value: 1, **{each: n for each, n in found.items() if n > 1}}
            self._known[value] = found
        return found

    def _of(self, value: Value) -> _Factors:
        made = value.owner
        if not _is_integer(value) or not isinstance(made, Operation):
            return {value: 1}
        match made.name:
            case "const":
                return {}
            case "cast":
                return self.of(made.operands[0])
            case "if" | "labeled":
                number = made.results.index(value)
                return self.most(end.operands[number] for end in ends_of(made))
        if made.name in LOOPS:  # its last iteration may multiply what is below a limit
            number = made.results.index(value)
            factors = self.most(end.operands[number] for end in ends_of(made))
            return {value: 1, None: factors.get(None, 0)}
        function, operands = operator_of(made), operands_of(made)
        if function in _SUMS:
            return self.most(operands)
        if function in _QUOTIENTS:
            return self.of(operands[0])
        if function in (operator.mul, operator.lshift):
            literals = [abs(constant_number(each) or 0) for each in operands]
            if function is operator.lshift:
                operands, literals = operands[:1], [1 << min(literals[1], 64)]
            found: dict[Value | None, float] = {None: sum(math.log2(max(n, 1)) for n in literals)}
            for each, n in (pair for factor in operands for pair in self.of(factor).items()):
                found[each] = found.get(each, 0) + n
            return found
        if function is operator.pow and constant_number(operands[0]) is None:
            exponent = constant_number(operands[1])
            times = _POWER if exponent is None else exponent
            return {each: n * times for each, n in self.of(operands[0]).items()}
        return {value: 1}

    def most(self, values: Iterable[Value]) -> _Factors:
        found: dict[Value | None, float] = {}
        for value in values:
            for each, n in self.of(value).items():
                found[each] = max(n, found.get(each, 0))
        return found


#: Values below a limit, and the values from which the limit is computed.
_Limit = tuple[set[Value], set[Value]]
#: Returns intervals of values.
_Ranges = Callable[[], Mapping[Value, Interval]]


def _grown_in(loop: Operation, known: _Ranges, intended: _Ranges) -> Collection[Value]:
    """Return what an iteration multiplies or adds up from variables that it makes from these.

    `known` are intervals for arithmetic that may overflow, `intended` those for one that does not.
    """
    carried = {
        number: {each[number] for each in carried_arguments(loop)}
        for number, result in enumerate(loop.results)
        if _is_integer(result)
    }
    sources = _Sources(loop)
    groups = [
        (set().union(*(carried[each] for each in group)), _bits_of(grown) * len(group))
        for group, grown in _growing(carried, loop, sources)
    ]
    if not groups:
        return ()
    limits = []
    for value, limit in _limits(loop):
        values = set(sources_of([value], sources.not_less))
        bits = max((n for group, n in groups if not group.isdisjoint(values)), default=0)
        if bits <= _room(limit, known()) and _are_above(values, intended()):
            limits.append((values, set(sources.of_all([limit]))))
    limits = _without_cycles(limits)
    while True:
        limited = set[Value]().union(*(values for values, _ in limits))
        variables = {n: each for n, each in carried.items() if limited.isdisjoint(each)}
        found, growing = list[Value](), set[Value]()
        for group, grown in _growing(variables, loop, sources):
            found += grown
            growing.update(*(variables[each] for each in group))
        kept = [each for each in limits if growing.isdisjoint(each[1])]
        if len(kept) == len(limits):
            return found
        limits = kept


def _growing(
    variables: Mapping[int, set[Value]], loop: Operation, sources: _Sources
) -> Iterator[tuple[list[int], list[Value]]]:
    """Yield the numbers of variables that grow together, and what multiplies or adds them up."""
    for group in _groups(variables, loop, sources):
        arguments = set().union(*(variables[each] for each in group))
        grown = list(
            sources.grown(
                [end.operands[each] for each in group for end in ends_of(loop)], arguments
            )
        )
        if grown:
            yield group, grown


def _bits_of(grown: Iterable[Value]) -> float:
    """Return by how many bits products and sums make variables longer together."""
    return sum(_bits_of_one(each.owner) for each in grown if isinstance(each.owner, Operation))


def _bits_of_one(made: Operation) -> float:
    function, numbers = operator_of(made), list(map(constant_number, operands_of(made)))
    if function not in _PRODUCTS:
        return 1
    if function is operator.mul:
        literals = [abs(each) for each in numbers if each is not None]
        return math.log2(max(literals[0], 1)) if literals else _BITS_OF_EXTENTS
    times = numbers[1]
    if times is None:
        return _BITS_OF_EXTENTS
    return times if function is operator.lshift else times * _BITS_OF_EXTENTS


def _room(limit: Value, known: Mapping[Value, Interval]) -> int:
    """Return by how many bits an iteration may multiply what is less than a limit at its start."""
    kind = limit.type
    high = known[limit][1] if limit in known else getattr(kind, "maxval", 1 << 63)
    if high <= 1 << _BITS_OF_EXTENTS:
        return _BITS_OF_EXTENTS
    return 0 if constant_number(limit) is not None else _BITS_OF_UNKNOWN


def _are_above(values: Iterable[Value], intended: Mapping[Value, Interval]) -> bool:
    """Return whether no argument of a loop among values is a large negative number."""
    arguments = (each for each in values if isinstance(each.owner, Region))
    return all(intended.get(each, (-math.inf, 0))[0] >= -(1 << 31) for each in arguments)


def _groups(
    variables: Mapping[int, set[Value]], loop: Operation, sources: _Sources
) -> Iterator[list[int]]:
    """Yield the numbers of variables that are made of each other, which grow together."""
    made_of = {n: sources.of_all(end.operands[n] for end in ends_of(loop)) for n in variables}
    leads = {
        n: {m for m in variables if not variables[m].isdisjoint(made_of[n])} for n in variables
    }
    grown = {n: set(reached(leads[n], leads.__getitem__)) for n in variables}
    for number in variables:
        group = [each for each in grown[number] if number in grown[each]]
        if number == min(group, default=None):
            yield group


def _limits(loop: Operation) -> Iterator[tuple[Value, Value]]:
    """Yield values that the condition of a ``while`` says to be less than others, and those."""
    if loop.name == "while":
        for part, truth in parts_of(loop.regions[0].yielded[0], True):
            function, operands = comparison_of(part, truth) or (None, [])
            if function in _LESS:
                less = _LESS[function]
                yield operands[less], operands[1 - less]


def _without_cycles(limits: list[_Limit]) -> list[_Limit]:
    """Return the limits that are not made of what they limit, as in ``h < h + 1``."""
    found, left = list[_Limit](), limits
    while True:
        limited = set[Value]().union(*(values for values, _ in left))
        new = [each for each in left if limited.isdisjoint(each[1])]
        if not new:
            return found
        found += new
        left = [each for each in left if each not in new]


def _halves(operation: Operation) -> bool:
    """Return whether an operation divides a number by two or more."""
    function = operator_of(operation)
    if function not in _QUOTIENTS:
        return False
    number = constant_number(operands_of(operation)[1]) or 0
    return number >= 2 if function is operator.floordiv else 1 <= number < 64


class _Sources:
    """The sources of integers in a loop."""

    def __init__(self, loop: Operation) -> None:
        inner = [each for region in loop.regions for each in region.walk()]
        handed = (each for operation in inner for each in handed_on(operation))
        #: Sources of the values that branches and inner loops hand on.
        self._handed = {target: each.sources for each in handed for target in each.targets}
        arguments = (each for region in loop.regions for each in region.arguments)
        results = (each for operation in inner for each in operation.results)
        #: Values that an iteration computes.
        self._made = {*arguments, *results, *self._handed}
        whole = {v for operation in inner if not _halves(operation) for v in operation.operands}
        #: Values that are used only in quotients by two or more.
        self._halved = self._made - whole

    def of(self, value: Value) -> list[Value]:
        """Return the values that one grows with."""
        made = value.owner
        if not _is_integer(value):
            return []
        if value in self._handed:
            return self._handed[value]
        if not isinstance(made, Operation) or made.regions:
            return []
        operands, function = operands_of(made), operator_of(made)
        if function in _QUOTIENTS:
            return operands[:1]
        is_kept = made.name == "cast" or function in (*_SUMS, *_PRODUCTS, *_LEAST)
        return operands if is_kept else []

    def not_less(self, made: Operation) -> list[Value]:
        """Return the operands of an operation that are not much more than its result."""
        operands, function = operands_of(made), operator_of(made)
        if function is max or (made.name == "cast" and not _narrowed(made)):
            return operands
        if function is operator.mul:
            one, two = operands
            return [
                v for v, n in ((one, two), (two, one)) if v is n or (constant_number(n) or 0) > 0
            ]
        if function in (operator.add, operator.sub):
            one, two = operands
            pairs = [(one, two), (two, one)][: 1 + (function is operator.add)]
            return [v for v, n in pairs if n not in self._made or constant_number(n) is not None]
        return []

    def _is_mean(self, total: Value) -> bool:
        """Return whether a sum leads only to numbers between those that are added."""
        if total in self._halved:
            return True
        made = total.owner
        if not isinstance(made, Operation) or operator_of(made) is not operator.add:
            return False
        one, two = operands_of(made)
        return self._is_half_way(one, two) or self._is_half_way(two, one)

    def _is_half_way(self, start: Value, step: Value) -> bool:
        """Return whether a step is a part of the way from a value to another."""
        if not isinstance(step.owner, Operation) or not _halves(step.owner):
            return False
        whole = operands_of(step.owner)[0].owner
        if not isinstance(whole, Operation) or operator_of(whole) is not operator.sub:
            return False
        return operands_of(whole)[1] is start

    def of_all(self, values: Iterable[Value], among: Container[Value] = ()) -> list[Value]:
        """Return values and all that they are made of, or only what is `among` others."""

        def within(values: Iterable[Value]) -> list[Value]:
            return [each for each in values if not among or each in among]

        return reached(within(values), lambda value: within(self.of(value)))

    def grown(self, ends: Collection[Value], variables: set[Value]) -> Iterator[Value]:
        """Yield products of values that grow with variables, and sums if two of those are added."""
        values, growing, count = self.of_all(ends)[::-1], set(variables), 0
        while count < len(growing):
            count = len(growing)
            growing.update(each for each in values if self._grows(each, growing))
        made = {
            each: each.owner
            for each in self.of_all(ends, growing)
            if isinstance(each.owner, Operation)
        }
        yield from (value for value, each in made.items() if operator_of(each) in _PRODUCTS)
        adds = [
            value
            for value, each in made.items()
            if operator_of(each) in _ADDITIONS and not self._is_mean(value)
        ]
        if any(growing.issuperset(operands_of(made[value])) for value in adds):
            yield from adds

    def _grows(self, value: Value, growing: set[Value]) -> bool:
        made, sources = value.owner, self.of(value)
        if isinstance(made, Operation) and operator_of(made) in _LEAST:
            return growing.issuperset(sources)
        return not growing.isdisjoint(sources)
