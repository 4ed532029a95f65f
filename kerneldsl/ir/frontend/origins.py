"""Origins of integers: literals beside uint64 values take that type.

A Python int is an int64, and Numba computes uint64 with int64 as int64. Quotients, remainders and
shifts of numbers from 2**63 on are then those of negative numbers. A literal that is not negative
takes the uint64's type instead, as in NumPy. So does a bool, and a variable of literals and uint64
values (``total = 0``, then ``total += x[i]``).

The uint64 must be in the program: an element, an argument, ``np.uint64(…)``. The uint64 that Numba
makes of smaller unsigned numbers, such as uint8 + uint8, keeps Numba's rule. Differences of such
numbers and literals may well be negative: ``a[i] + b[i] - 255`` stays an int64.

The decision is ``docs/adr/0031-integers-stay-integers.md``.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Iterable, Sequence
from functools import reduce
from typing import Any

from numba import types

from kerneldsl.frontend.library_names import name_of_function
from kerneldsl.frontend.operators import IN_PLACE, also_in_place
from kerneldsl.ir.operations import Operation, Value

__all__ = ["Origin", "Origins"]


class Origin(enum.Enum):
    """Origin of a number's type."""

    TRUTH = enum.auto()
    """A bool, which has the type of the integers beside it."""
    LITERAL = enum.auto()
    """A Python int that is not negative, or what is computed of such."""
    CARRIED = enum.auto()
    """A variable that is a literal before the loop that is read."""
    COUNTED = enum.auto()
    """Computed of such a variable. It is a uint64 if the variable becomes one, else an int64."""
    NARROW = enum.auto()
    """An unsigned type of fewer than 64 bits, or what Numba makes of such."""
    WIDE = enum.auto()
    """The program says uint64."""
    OTHER = enum.auto()
    """Anything else."""


_WIDE, _SIGNED = types.uint64, types.int64
#: Origins of values that are converted to uint64 if the other operand is one.
_CONVERTED = (Origin.TRUTH, Origin.LITERAL, Origin.CARRIED, Origin.COUNTED)
_OPEN = (Origin.CARRIED, Origin.COUNTED)
_SHIFTS = also_in_place((operator.lshift, operator.rshift))
_BITWISE = also_in_place((operator.and_, operator.or_, operator.xor))
_DIFFERENCES = (operator.sub, operator.isub)
_ARITHMETIC = frozenset(also_in_place(IN_PLACE)).difference(
    _SHIFTS, also_in_place([operator.truediv])
)
#: Functions with results of the type of their operands.
_OF_PYTHON = ("abs", "divmod", "math.gcd", "max", "min", "pow", "round")
_OF_NUMPY = """
    absolute add bitwise_and bitwise_or bitwise_xor clip floor_divide fmax fmin fmod left_shift
    maximum minimum mod multiply power remainder gcd lcm right_shift subtract
"""
_SAME_TYPE = frozenset({*_OF_PYTHON, *(f"numpy.{name}" for name in _OF_NUMPY.split())})
_WHERE = "numpy.where"
#: Functions with an exact uint64 result for a uint64 and signed numbers.
_LARGEST = ("max", "numpy.maximum", "numpy.fmax")
#: Intrinsics that count bits of a number.
_COUNTS_OF_BITS = frozenset({"clz", "ffs", "popc"})


class Origins:
    """Origins of the values of a function while it is read."""

    def __init__(self) -> None:
        #: Origins of values that do not follow from their types.
        self._known: dict[Value, Origin] = {}
        #: Whether literals are converted. They are not in functions of Numba, which keep its rule.
        self.is_active = True
        #: Loops that are read.
        self.loops = 0
        #: Number of uses of a loop variable as a literal.
        self.used = 0

    def of(self, value: Value) -> Origin:
        found = self._known.get(value)
        if found is None:
            found = _by_type(value)
        elif not self.loops and found in _OPEN:
            found = Origin.LITERAL if found is Origin.CARRIED else Origin.OTHER
        return found

    def set(self, value: Value, origin: Origin) -> None:
        if value.type is None or origin is not _by_type(value):
            self._known[value] = origin

    def is_converted(self, value: Value) -> bool:
        """Return whether a value is converted beside a uint64."""
        return self.is_active and value.type != _WIDE and self.of(value) in _CONVERTED

    def convert(self, reader: Any, value: Value, attributes: dict[str, Any] | None = None) -> Value:
        """Return a literal or bool as a uint64."""
        self.used += self.of(value) in _OPEN
        about = {**(attributes or {}), "written": True, "literal": True}
        found: Value = reader.convert(value, _WIDE, about)
        return found

    def typed(self, reader: Any, value: Value) -> Value:
        """Return a value of a type that the program names. It is not a literal any more."""
        made = value.owner
        if not isinstance(made, Operation) or made.name != "const":
            return value
        if self.of(value) is not Origin.LITERAL:
            return value
        found: Value = reader.constant(made.attributes["value"], value.type)
        self.set(found, Origin.OTHER)
        return found

    # -- operations -------------------------------------------------------------------------------

    def operands(self, reader: Any, function: Any, one: Value, two: Value) -> list[Value]:
        """Return the operands of an operator. A literal is converted if it must be."""
        if function in _ARITHMETIC and (one.type == _WIDE) is not (two.type == _WIDE):
            if self.of(one) is Origin.WIDE and self.is_converted(two):
                return [one, self.convert(reader, two)]
            if self.of(two) is Origin.WIDE and self.is_converted(one):
                return [self.convert(reader, one), two]
        return [one, two]

    def set_operated(self, function: Any, one: Value, two: Value, result: Value) -> None:
        """Note the origin of what an operator gives."""
        if result.type in (_WIDE, _SIGNED):
            self.set(result, _operated(function, self.of(one), self.of(two)))

    def set_signed(self, function: Any, operand: Value, result: Value) -> None:
        """Note the origin of what a sign or ``~`` gives."""
        found = self.of(operand)
        keeping = {Origin.LITERAL: operator.pos, Origin.TRUTH: operator.invert}.get(found)
        if found in _OPEN:
            found = Origin.COUNTED
        self.set(result, found if keeping in (None, function) else Origin.OTHER)

    def arguments(self, reader: Any, function: Any, given: list[Any]) -> list[Any]:
        """Return the arguments of a call. Literals are converted if they must be."""
        found = self._typing(function, given)
        if not any(each.type == _WIDE for each in found):
            return given
        origins = list(map(self.of, found))
        is_wide = reduce(joined, origins) is Origin.WIDE or (
            Origin.WIDE in origins
            and name_of_function(function) in _LARGEST
            and all(isinstance(v.type, types.Integer | types.Boolean) for v in found)
        )
        if not is_wide:
            return given
        wanted = {each for each in found if self.is_converted(each)}
        return [self.convert(reader, v) if v in wanted else v for v in given]

    def set_called(self, function: Any, given: list[Any], result: Any) -> None:
        """Note the origin of what a call gives."""
        if isinstance(result, Value) and result.type == _WIDE:
            found = set(map(self.of, self._typing(function, given)))
            if found and Origin.WIDE not in found:
                is_narrow = found <= {Origin.NARROW, Origin.TRUTH}
                self.set(result, Origin.NARROW if is_narrow else Origin.OTHER)

    def _typing(self, function: Any, given: list[Any]) -> list[Value]:
        """Return the arguments that give a call's value its type."""
        if not all(isinstance(each, Value) for each in given):
            return []
        name = name_of_function(function)
        if name == _WHERE:
            given = given[1:]
        elif name not in _SAME_TYPE:
            return []
        return [each for each in given if each.type != types.none]

    def set_intrinsic(self, name: str, given: Iterable[Any], result: Value) -> None:
        """Note the origin of what an operation of the language gives."""
        if result.type == _WIDE and (
            name in _COUNTS_OF_BITS
            or any(isinstance(v, Value) and self.of(v) is Origin.NARROW for v in given)
        ):
            self.set(result, Origin.NARROW)

    # -- variables --------------------------------------------------------------------------------

    def joined(self, values: Iterable[Value]) -> Origin:
        """Return the origin of what is one of several values, of those with a known type."""
        known = [self.of(v) for v in values if v.type is not None or v in self._known]
        return reduce(joined, known) if known else Origin.OTHER

    def are_wide(self, values: Sequence[Value]) -> bool:
        """Return whether a variable of several values is a uint64 as some of them are literals."""
        kinds = [value.type == _WIDE for value in values]
        is_mixed = self.is_active and any(kinds) and not all(kinds)
        return is_mixed and self.joined(values) is Origin.WIDE

    def set_joined(self, result: Value, values: Iterable[Any]) -> None:
        """Note the origin of what is one of several values."""
        if result.type in (_WIDE, _SIGNED):
            known = [v for v in values if isinstance(v, Value) and v.type is not None]
            self.set(result, self.joined(known))

    def carried(self, found: Origin) -> Origin:
        """Return the origin of a variable in a loop, by the one that it has before."""
        return Origin.CARRIED if found is Origin.LITERAL else found

    def after(self, before: Any, values: Iterable[Value]) -> Origin:
        """Return the origin of a variable that a loop may assign, by its value before."""
        found = self.joined(values)
        is_literal = isinstance(before, Value) and self.of(before) is Origin.LITERAL
        if is_literal and found is Origin.COUNTED:
            return Origin.OTHER  # ``n += 1`` counts, and Python's counts are int64
        return Origin.LITERAL if is_literal and found is Origin.CARRIED else found


def _by_type(value: Value) -> Origin:
    kind = value.type
    if kind is _SIGNED or kind == _SIGNED:
        made = value.owner
        if isinstance(made, Operation) and made.name == "const":
            number = made.attributes["value"]
            return Origin.LITERAL if type(number) is int and number >= 0 else Origin.OTHER
        return Origin.OTHER
    if kind == _WIDE:
        return Origin.WIDE
    if isinstance(kind, types.Boolean):
        return Origin.TRUTH
    is_unsigned = isinstance(kind, types.Integer) and not kind.signed
    return Origin.NARROW if is_unsigned else Origin.OTHER


def joined(one: Origin, other: Origin) -> Origin:
    """Return the origin of a value that is one of two."""
    both = {one, other}
    if len(both) == 1:
        return one
    for each in (Origin.OTHER, Origin.WIDE, Origin.COUNTED):
        if each in both:
            return each
    if Origin.NARROW in both:
        rest = other if one is Origin.NARROW else one
        return {Origin.TRUTH: Origin.NARROW, Origin.CARRIED: Origin.COUNTED}.get(rest, Origin.OTHER)
    return Origin.CARRIED if Origin.CARRIED in both else Origin.LITERAL


def _operated(function: Any, one: Origin, two: Origin) -> Origin:
    if function in _SHIFTS:
        if one in _OPEN:
            return Origin.COUNTED
        return Origin.OTHER if one is Origin.TRUTH else one
    both = {one, two}
    if function not in _ARITHMETIC or Origin.OTHER in both:
        return Origin.OTHER
    if Origin.WIDE in both:
        return Origin.WIDE
    if both & {*_OPEN}:
        return Origin.COUNTED
    if Origin.TRUTH in both:
        is_truth = len(both) == 1 and function in _BITWISE
        return Origin.TRUTH if is_truth else Origin.OTHER
    if len(both) > 1 or (one is Origin.LITERAL and function in _DIFFERENCES):
        return Origin.OTHER
    return one
