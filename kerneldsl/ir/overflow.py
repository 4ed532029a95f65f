"""Integers that may overflow, though arithmetic of indices is taken not to: those of hashes.

Products of a few extents and coordinates do not overflow int64. A product may overflow if

- a literal factor is 65,536 or more, or a left shift of a variable 16 bits or more,
- one value is a factor of it four times or more, as in ``i ** 13``, or
- a loop multiplies a variable in each iteration, as ``h = h * 31 + x[k]`` does, and no condition of
  the loop compares the variable.

A conversion to a smaller type keeps a number that fits where coordinates and extents have at most
31 bits. So ``np.int32(kd.grid(1))`` does not overflow, and ``np.int8(kd.grid(1))`` may.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping

from numba import types

from kerneldsl.ir.operations import (
    LOOPS,
    Operation,
    Region,
    Value,
    carried_arguments,
    ends_of,
    given_to,
)
from kerneldsl.ir.ranges import Interval, ranges_of_region
from kerneldsl.ir.recognize import (
    comparison_of,
    constant_number,
    operands_of,
    operator_of,
    parts_of,
    sources_of,
)

__all__ = ["overflowing_values"]

#: The least literal factor of a hash, the least bits of its shifts, and the least power of a value.
_FACTOR, _BITS, _POWER = 1 << 16, 16, 4
#: Factors that are counted for one value.
_MOST_FACTORS = 16
_SUMS = (operator.add, operator.sub, operator.neg, operator.or_, operator.xor, max)
_QUOTIENTS = (operator.floordiv, operator.rshift)
_PRODUCTS = (operator.mul, operator.lshift, operator.pow)
_ORDERS = (operator.lt, operator.le, operator.gt, operator.ge)
#: Coordinates and extents of at most 31 bits.
_SMALL: dict[str, Interval] = {
    **dict.fromkeys(("grid", "gridsize", *(f"extent.{axis}" for axis in "xyz")), (0, 2**31 - 1)),
    **dict.fromkeys(("array.extent", "array.size"), (0, 2**31 - 1)),
    **{f"{name}.{axis}": (0, 2**21 - 1) for name in ("blockIdx", "gridDim") for axis in "xyz"},
}


def overflowing_values(region: Region, of_names: Mapping[str, Interval]) -> frozenset[Value]:
    """Return the results of arithmetic and conversions in a region that may overflow.

    `of_names` are intervals of operations by their names, such as ``"threadIdx.x"``.
    """
    powers = _Powers()
    found: set[Value] = set()
    uncertain: list[Operation] = []
    for operation in region.walk():
        if operation.name in LOOPS and operation.results:
            found.update(_grown_in(operation))
        elif _is_narrowing(operation):
            uncertain.append(operation)
        elif operator_of(operation) in _PRODUCTS and _is_integer(operation.result):
            powers_of_result = powers.of(operation.result).values()
            if _has_a_large_factor(operation) or max(powers_of_result, default=0) >= _POWER:
                found.add(operation.result)
            elif _is_shift_by_a_variable(operation):
                uncertain.append(operation)
    if uncertain:
        known = ranges_of_region(region, {**of_names, **_SMALL})
        found.update(each.result for each in uncertain if not _is_small(each, known))
    return frozenset(found)


def _is_narrowing(operation: Operation) -> bool:
    """Return whether an operation converts an integer to a type that has not all its values."""
    if operation.name != "cast":
        return False
    kinds = operation.operands[0].type, operation.result.type
    if not all(isinstance(kind, types.Integer) for kind in kinds):
        return False
    source, target = kinds
    return bool(source.minval < target.minval or target.maxval < source.maxval)


def _is_shift_by_a_variable(product: Operation) -> bool:
    numbers = map(constant_number, operands_of(product))
    return operator_of(product) is operator.lshift and all(each is None for each in numbers)


def _is_small(operation: Operation, known: Mapping[Value, Interval]) -> bool:
    """Return whether a conversion keeps the number, or a shift has few bits."""
    operands, kind = operands_of(operation), operation.result.type
    least, most = (0, _BITS - 1) if operation.name != "cast" else (kind.minval, kind.maxval)
    low, high = known.get(operands[-1], (least - 1, most))
    return bool(least <= low and high <= most)


def _is_integer(value: Value) -> bool:
    return isinstance(value.type, types.Integer)


def _has_a_large_factor(product: Operation) -> bool:
    function, numbers = operator_of(product), list(map(constant_number, operands_of(product)))
    if function is operator.lshift:
        return (numbers[1] or 0) >= _BITS
    return function is operator.mul and any(abs(each or 0) >= _FACTOR for each in numbers)


class _Powers:
    """Powers of values in the products that others are."""

    def __init__(self) -> None:
        self._known: dict[Value, Mapping[Value, int]] = {}

    def of(self, value: Value) -> Mapping[Value, int]:
        """Return the values that are factors of one, and their powers."""
        found = self._known.get(value)
        if found is None:
            found = self._of(value)
            if len(found) > _MOST_FACTORS:
                found = {value: 1, **{each: n for each, n in found.items() if n > 1}}
            self._known[value] = found
        return found

    def _of(self, value: Value) -> Mapping[Value, int]:
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
        function, operands = operator_of(made), operands_of(made)
        if function in _SUMS:
            return self.most(operands)
        if function in _QUOTIENTS or function is operator.lshift:
            return self.of(operands[0])
        if function is operator.mul:
            one, two = map(self.of, operands)
            return {each: one.get(each, 0) + two.get(each, 0) for each in {**one, **two}}
        if function is operator.pow and constant_number(operands[0]) is None:
            exponent = constant_number(operands[1])
            times = _POWER if exponent is None else exponent
            return {each: n * times for each, n in self.of(operands[0]).items()}
        return {value: 1}

    def most(self, values: Iterable[Value]) -> Mapping[Value, int]:
        found: dict[Value, int] = {}
        for value in values:
            for each, n in self.of(value).items():
                found[each] = max(n, found.get(each, 0))
        return found


def _grown_in(loop: Operation) -> Iterator[Value]:
    """Yield the products by which an iteration makes a variable from its value before."""
    compared = set(sources_of(_compared(loop)))
    for number, result in enumerate(loop.results):
        arguments = {carried[number] for carried in carried_arguments(loop)}
        if _is_integer(result) and compared.isdisjoint(arguments):
            growth = _Growth(arguments)
            yield from growth.products(end.operands[number] for end in ends_of(loop))


def _compared(loop: Operation) -> Iterator[Value]:
    """Yield the values that the condition of a ``while`` compares."""
    if loop.name == "while":
        for part, truth in parts_of(loop.regions[0].yielded[0], True):
            function, operands = comparison_of(part, truth) or (None, [])
            if function in _ORDERS:
                yield from operands


class _Growth:
    """Values that grow with a variable of a loop."""

    def __init__(self, arguments: set[Value]) -> None:
        self._known = dict.fromkeys(arguments, True)

    def products(self, values: Iterable[Value]) -> Iterator[Value]:
        """Yield the products that grow with the variable, among what values are made of."""
        for value in sources_of(values, self._growing_sources):
            made = value.owner
            if isinstance(made, Operation) and self.of(value) and _is_product(made):
                yield value

    def of(self, value: Value) -> bool:
        """Return whether a value grows with the variable."""
        if value not in self._known:
            self._known[value] = self._of(value)
        return self._known[value]

    def _of(self, value: Value) -> bool:
        made = value.owner
        if isinstance(made, Operation) and operator_of(made) in (min, operator.and_):
            return all(map(self.of, operands_of(made)))
        return any(map(self.of, _sources(value)))

    def _growing_sources(self, made: Operation) -> Iterator[Value]:
        growing = filter(self.of, made.results)
        return filter(self.of, (each for result in growing for each in _sources(result)))


def _is_product(made: Operation) -> bool:
    function, operands = operator_of(made), operands_of(made)
    return function in _PRODUCTS or (function is operator.add and operands[0] is operands[1])


def _sources(value: Value) -> list[Value]:
    """Return the values that one grows with."""
    made = value.owner
    if not _is_integer(value) or not isinstance(made, Operation):
        return []
    if made.regions:
        number = made.results.index(value)
        return [end.operands[number] for end in ends_of(made)] + given_to(made)[number:][:1]
    operands = operands_of(made)
    function = operator_of(made)
    if function in _QUOTIENTS:
        return operands[:1]
    is_kept = made.name == "cast" or function in (*_SUMS, *_PRODUCTS, min, operator.and_)
    return operands if is_kept else []
