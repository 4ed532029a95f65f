"""The flow of values through a kernel: uses, what merges hand on, and where bits are observed.

uint64 and int64 numbers of the same bits have the same sums, products and bitwise operations, and
are the same in an array of integers. They differ as floats, as indices, in quotients, right shifts
and comparisons, and in what functions make of them.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numba import types

from kerneldsl.frontend.parts import Part
from kerneldsl.ir.frontend.source_names import Assignment, SourceNames
from kerneldsl.ir.operations import (
    CONTROL,
    LOOPS,
    Effect,
    Function,
    Operation,
    Region,
    Value,
    handed_on,
)
from kerneldsl.ir.ranges import Interval, interval_in, ranges_of
from kerneldsl.ir.recognize import constant_number, operator_of, reached

__all__ = ["SAME_BITS", "Flow", "Place", "is_signed", "is_unsigned", "is_whole"]

_COUNTS_OF_BITS = ("clz", "ffs", "popc")
_ENDS = ("yield", "leave", "unreachable")
_MUL = (operator.mul, np.multiply)
_AND = (operator.and_, np.bitwise_and)
#: Operators with lowest 64 bits that depend on those of their operands alone; ``int`` keeps them.
SAME_BITS = frozenset(
    (
        *(operator.add, operator.sub, operator.or_, operator.xor, operator.lshift),
        *(operator.neg, operator.invert, operator.pos, int),
        *(np.add, np.subtract, np.bitwise_or, np.bitwise_xor),
        *(*_MUL, *_AND),
    )
)
#: Functions that only test whether a number is 0.
_TRUTH = (bool, operator.not_)
_EQUAL = (operator.eq, operator.ne)
#: Iterations that a loop with a running sum is assumed to stay below.
_ROUNDS = 2**31
#: Operations inside each other that are compared.
_DEPTH = 8


class Place(NamedTuple):
    """An operation that observes a value, and which of its operands that is."""

    operation: Operation
    position: int


class Flow:
    """Uses and merges of the values of a function."""

    def __init__(self, function: Function, names: SourceNames) -> None:
        self.names = names
        #: Operations with a source, in program order.
        self.operations = [each for each in function.body.walk() if each.source is not None]
        self._function = function
        self._uses: dict[Value, list[Place]] = {}
        self._next: dict[Value, list[Value]] = {}
        self._previous: dict[Value, list[Value]] = {}
        #: The region of an operation, and the operation of a region.
        self.region_of: dict[Operation, Region] = {}
        self.holder_of: dict[Region, Operation] = {}
        self._region(function.body)
        known = {*self._uses, *function.body.arguments}
        known.update(value for each in self.region_of for value in each.results)
        self.assignments = [each for each in names.assignments if each.value in known]
        self._assigned: dict[tuple[str, Value], Assignment] = {}
        for each in self.assignments:
            self._assigned.setdefault((each.name, each.value), each)
        self._ranges: dict[Value, Interval] | None = None

    def _region(self, region: Region) -> None:
        for operation in region.operations:
            self.region_of[operation] = region
            for position, value in enumerate(operation.operands):
                self._uses.setdefault(value, []).append(Place(operation, position))
            for inner in operation.regions:
                self.holder_of[inner] = operation
                self._region(inner)
            for targets, sources in handed_on(operation):
                for source in sources:
                    self._next.setdefault(source, []).extend(targets)
                for target in targets:
                    self._previous.setdefault(target, []).extend(sources)

    # -- merges -----------------------------------------------------------------------------------

    def uses(self, value: Value) -> Iterator[Place]:
        """Yield where a value is used, other than handed on to a variable."""
        for place in self._uses.get(value, ()):
            operation, position = place
            if operation.name in LOOPS:
                if position < len(operation.operands) - len(operation.results):
                    yield place
            elif operation.name not in _ENDS or not self._is_handed_on(operation):
                yield place

    def _is_handed_on(self, end: Operation) -> bool:
        if end.name == "leave":
            return True
        region = self.region_of[end]
        holder = self.holder_of.get(region)
        if holder is None or holder.name not in CONTROL:
            return False
        return holder.name != "while" or region is not holder.regions[0]

    def handed_on(self, value: Value) -> list[Value]:
        """Return what merges make of a value."""
        return self._next.get(value, [])

    def web(self, value: Value) -> list[Value]:
        """Return what merges make of a value, and the values that they make it of."""

        def merged(each: Value) -> Iterable[Value]:
            # A value that is no merge may be handed on to other variables: these are not followed.
            onward = self._next.get(each, ()) if each is value or self.is_merged(each) else ()
            return (*onward, *self._previous.get(each, ()))

        return reached([value], merged)

    def is_merged(self, value: Value) -> bool:
        """Return whether a value is a variable that has been assigned on several paths."""
        return value in self._previous

    def sources(self, value: Value) -> list[Value]:
        """Return the values that a value has been merged from, itself if it has not."""
        found = reached([value], lambda each: self._previous.get(each, ()))
        return [each for each in found if each not in self._previous]

    # -- places -----------------------------------------------------------------------------------

    def assigned(self, name: str, value: Value) -> Assignment | None:
        """Return the assignment of a value to a variable."""
        return self._assigned.get((name, value))

    def is_read_by_name(self, value: Value) -> bool:
        """Return whether a variable with this value is read."""
        return value in self.names.reads

    def is_read(self, name: str, value: Value) -> bool:
        """Return whether a value is one of a variable's.

        Variables that are assigned the same value are merged with it, too.
        """
        reads = self.names.reads.get(value, ())
        return any(isinstance(each.node, ast.Name) and each.node.id == name for each in reads)

    def read_for(self, name: str, values: Iterable[Value], operation: Operation) -> Part | None:
        """Return where a variable that has one of some values is read for an operation."""
        reads = [
            each
            for value in values
            for each in self.names.reads.get(value, ())
            if isinstance(each.node, ast.Name) and each.node.id == name
        ]
        source: Part | None = operation.source
        if source is not None:
            inside = {id(node) for node in ast.walk(source.node)}
            for each in reads:
                if id(each.node) in inside:
                    return each
        caller = operation.place.caller
        while caller is not None:
            for each in reads:
                if each.unit is caller.unit and getattr(each.node, "lineno", 0) == caller.line:
                    return each
            caller = caller.caller
        return reads[0] if reads else None

    # -- ranges -----------------------------------------------------------------------------------

    @property
    def ranges(self) -> dict[Value, Interval]:
        """Intervals of the integers."""
        if self._ranges is None:
            self._ranges = ranges_of(self._function, rounds=_ROUNDS)
        return self._ranges

    def is_below(self, value: Value, limit: int) -> bool:
        """Return whether an integer is certainly less than a limit, and not negative."""
        low, high = self.interval(value)
        return low >= 0 and high < limit

    def interval(self, value: Value) -> Interval:
        """Return the interval of an integer or bool."""
        if isinstance(value.type, types.Boolean):
            return 0, 1
        return interval_in(self.ranges, value)

    # -- observed bits ----------------------------------------------------------------------------

    def observed(self, values: Iterable[Value]) -> Iterator[Place]:
        """Yield where more of some integers than their lowest 64 bits can be seen."""
        pending = list(values)
        seen = set(pending)
        while pending:
            value = pending.pop(0)
            onward = [*self.handed_on(value)]
            for place in self.uses(value):
                made = self._onward(place, value)
                if made is None:
                    yield place
                else:
                    onward += made
            pending += [each for each in dict.fromkeys(onward) if each not in seen]
            seen.update(onward)

    def is_observed(self, value: Value) -> bool:
        """Return whether more of an integer than its lowest 64 bits can be seen."""
        return any(True for _ in self.observed([value]))

    def is_seen(self, place: Place, value: Value) -> bool:
        """Return whether a use of an integer sees more than its lowest 64 bits."""
        onward = self._onward(place, value)
        return onward is None or any(map(self.is_observed, onward))

    def _onward(self, place: Place, value: Value) -> list[Value] | None:
        """Return what has the bits of a value in turn; ``None`` where the value is observed."""
        operation, position = place
        match operation.name:
            case "cast":
                if not is_whole(operation.result):
                    return None
                # The program says a conversion that it writes.
                attributes = operation.attributes
                is_said = "written" in attributes and "literal" not in attributes
                return [] if is_said else operation.results
            case "numba":
                return self._operated(operation, position)
            case "array.store":
                return [] if position == len(operation.operands) - 1 else None
            case "if" | "yield":
                return []  # a condition
            case "tuple.make":
                return operation.results
        return [] if operation.name in _COUNTS_OF_BITS else None

    def _operated(self, operation: Operation, position: int) -> list[Value] | None:
        function, operands = operator_of(operation), operation.operands
        if function in _TRUTH:
            return []
        if not all(map(is_whole, operands)):
            return None
        if function in _EQUAL:
            return [] if self._are_equal_by_bits(*operands) else None
        is_kept = function in SAME_BITS and not (function is operator.lshift and position)
        if not is_kept or not is_whole(operation.result):
            return None
        if function in _MUL and self.are_same(operands[0], operands[1]):
            return []  # a square is never negative
        if function in _AND and any(0 <= (constant_number(v) or -1) < 2**63 for v in operands):
            return []
        return operation.results

    def are_same(self, one: Value, other: Value, depth: int = _DEPTH) -> bool:
        """Return whether the same operations make two values of the same values.

        Elements that are loaded at the same index count as the same.
        """
        if one is other:
            return True
        first, second = one.owner, other.owner
        if isinstance(first, Region) and isinstance(second, Region):
            return self._is_of_both_regions(one, first, other, second)
        if depth == 0 or not (isinstance(first, Operation) and isinstance(second, Operation)):
            return False
        return (
            first.name == second.name
            and one.type == other.type
            and not first.regions
            and not first.effect & ~Effect.READ
            and len(first.operands) == len(second.operands)
            and _attributes(first) == _attributes(second)
            and all(
                self.are_same(*pair, depth - 1)
                for pair in zip(first.operands, second.operands, strict=True)
            )
        )

    def _is_of_both_regions(self, one: Value, first: Region, other: Value, second: Region) -> bool:
        """Return whether two values are a variable in the condition and the body of a ``while``."""
        holder = self.holder_of.get(first)
        return (
            holder is not None
            and holder is self.holder_of.get(second)
            and holder.name == "while"
            and first.arguments.index(one) == second.arguments.index(other)
        )

    def _are_equal_by_bits(self, one: Value, other: Value) -> bool:
        """Return whether two values are equal if, and only if, their bits are."""
        numbers = constant_number(one), constant_number(other)
        if any(number is not None and 0 <= number < 2**63 for number in numbers):
            return True
        return not (is_signed(one) or is_signed(other))


def is_whole(value: Value) -> bool:
    """Return whether a value is an integer or a bool."""
    return isinstance(value.type, types.Integer | types.Boolean)


def is_signed(value: Value) -> bool:
    """Return whether a value is of a signed integer type."""
    return isinstance(value.type, types.Integer) and bool(value.type.signed)


def is_unsigned(value: Value) -> bool:
    """Return whether a value is of an unsigned integer type."""
    return isinstance(value.type, types.Integer) and not value.type.signed


def _attributes(operation: Operation) -> list[Any]:
    attributes = operation.attributes
    return [operator_of(operation), *(attributes.get(key) for key in ("value", "axis", "number"))]
