"""Combinations of a tile's elements: a row for each name of a reduction or scan.

A row says how the front end reads an element and a result. It has the combination of two elements,
in LLVM's instructions of every machine. Targets decide which elements meet, and in which order.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.frontend.members import packed, unpacked
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.lowering.groups import EXACT, Combination, combination_of
from kerneldsl.utilities.dataclasses import dataclass

if TYPE_CHECKING:
    from kerneldsl.ir.frontend.reader import Reader

__all__ = [
    "FOLDS",
    "Combiner",
    "Fold",
    "key_bits",
    "key_type",
    "number_of",
    "sort_key",
    "write_number",
]


def _cast(reader: Reader, value: Value, kind: Any, place: Callable[[], Value]) -> Value:
    return reader.cast(value, kind)


def _same(reader: Reader, total: Value, count: Value) -> Value:
    return total


@dataclass(frozen=True)
class Fold:
    """A combination of elements."""

    #: Returns the combination of two values, for a target context and Numba's type of both.
    combination: Callable[[Any, Any], Combination]
    #: Returns the neutral element of the combination, for that type.
    identity: Callable[[Any], Any]
    #: Result of a scan before any element is combined.
    nothing: int = 0
    #: Reads an element's operand of the combination, a number or a tuple of numbers. The arguments
    #: are the reader, the element, the type of the result, and a function that reads the element's
    #: position along the axis.
    element: Callable[[Reader, Value, Any, Callable[[], Value]], Value] = _cast
    #: Reads the result. The arguments are the reader, the combination of all elements and their
    #: number.
    finish: Callable[[Reader, Value, Value], Value] = _same
    #: Vote of a block that combines truth values: "or" or "and".
    vote: str = ""


@dataclass(frozen=True)
class _Vote(Combination):
    """Combines truth values by "or" or "and"."""

    which: str

    def combine(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        return builder.or_(a, b) if self.which == "or" else builder.and_(a, b)


@dataclass(frozen=True)
class _Product(Combination):
    """Multiplies; a product is never contracted with a sum."""

    def combine(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        if isinstance(self.kind, types.Complex):
            return self._of_complex(builder, a, b)
        if isinstance(self.kind, types.Float):
            return builder.fmul(a, b, flags=EXACT)
        return builder.mul(a, b)

    def _of_complex(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        def product(i: int, j: int) -> ir.Value:
            parts = builder.extract_value(a, i), builder.extract_value(b, j)
            return builder.fmul(*parts, flags=EXACT)

        real = builder.fsub(product(0, 0), product(1, 1), flags=EXACT)
        imaginary = builder.fadd(product(0, 1), product(1, 0), flags=EXACT)
        return builder.insert_value(builder.insert_value(a, real, 0), imaginary, 1)


@dataclass(frozen=True)
class _FirstExtreme(Combination):
    """Takes the larger or the smaller of two elements with positions.

    A NaN goes before any number. Of equal elements, the one with the lower position is taken.
    """

    which: str

    def combine(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        (one, at), (two, other_at) = (
            [builder.extract_value(each, number) for number in range(2)] for each in (a, b)
        )
        is_better, is_equal = self._compared(builder, one, two)
        is_before = builder.icmp_signed("<", other_at, at)
        is_taken = builder.or_(is_better, builder.and_(is_equal, is_before))
        parts = builder.select(is_taken, two, one), builder.select(is_taken, other_at, at)
        return builder.insert_value(builder.insert_value(a, parts[0], 0), parts[1], 1)

    def _compared(
        self, builder: ir.IRBuilder, one: ir.Value, two: ir.Value
    ) -> tuple[ir.Value, ir.Value]:
        """Return whether the second of two elements is better, and whether they are equal."""
        sign, kind = ">" if self.which == "max" else "<", self.kind.types[0]
        if not isinstance(kind, types.Float):
            compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
            return compare(sign, two, one), builder.icmp_unsigned("==", two, one)
        are_nan = [builder.fcmp_unordered("uno", each, each) for each in (one, two)]
        is_first = builder.and_(are_nan[1], builder.not_(are_nan[0]))
        is_better = builder.or_(builder.fcmp_ordered(sign, two, one), is_first)
        is_equal = builder.fcmp_ordered("==", two, one)
        return is_better, builder.or_(is_equal, builder.and_(*are_nan))


def _no_sum(kind: Any) -> Any:
    if isinstance(kind, types.Complex):
        return complex(-0.0, -0.0)
    return -0.0 if isinstance(kind, types.Float) else 0


def _no_extreme(which: str, kind: Any) -> Any:
    if isinstance(kind, types.Float):
        return float("nan")  # yields to any number
    return ELEMENT_TYPES[str(kind)].integer_range[0 if which == "max" else 1]


def _no_place(which: str, kind: Any) -> Any:
    """Return an element that is no better than any other one, after all of them."""
    number, place = kind.types
    last = ELEMENT_TYPES[str(place)].integer_range[1]
    if isinstance(number, types.Float):
        return -math.inf if which == "max" else math.inf, last
    return ELEMENT_TYPES[str(number)].integer_range[0 if which == "max" else 1], last


def _with_place(reader: Reader, value: Value, kind: Any, place: Callable[[], Value]) -> Value:
    if isinstance(value.type, types.Boolean):
        value = reader.cast(value, types.uint8)
    elif isinstance(value.type, types.Float) and value.type.bitwidth < 32:
        value = reader.cast(value, types.float32)
    return packed(reader, (value, place()))


def _place(reader: Reader, total: Value, count: Value) -> Value:
    found: Value = unpacked(reader, total)[1]
    return found


def _truth(reader: Reader, value: Value, kind: Any, place: Callable[[], Value]) -> Value:
    return reader.numba(operator.ne, [value, reader.constant(0, types.int64)])


def _mean(reader: Reader, total: Value, count: Value) -> Value:
    kind = total.type
    real = kind.underlying_float if isinstance(kind, types.Complex) else kind
    quotient = reader.numba(operator.truediv, [total, reader.cast(count, real)])
    return reader.cast(quotient, kind)


def _sum(finish: Callable[[Reader, Value, Value], Value] = _same) -> Fold:
    return Fold(partial(combination_of, "sum"), _no_sum, finish=finish)


def _extreme(which: str) -> Fold:
    return Fold(partial(combination_of, which), partial(_no_extreme, which))


def _first_extreme(which: str) -> Fold:
    def combination(context: Any, kind: Any) -> Combination:
        return _FirstExtreme(context, kind, which)

    identity = partial(_no_place, which)
    return Fold(combination, identity, element=_with_place, finish=_place)


def _vote(which: str) -> Fold:
    def combination(context: Any, kind: Any) -> Combination:
        return _Vote(context, kind, which)

    return Fold(combination, lambda kind: which == "and", element=_truth, vote=which)


#: The folds of reductions and scans, by :attr:`kerneldsl.language.intrinsics.tiles.TileForm`.
FOLDS = {
    "sum": _sum(),
    "mean": _sum(_mean),
    "prod": Fold(_Product, lambda kind: 1, nothing=1),
    "max": _extreme("max"),
    "min": _extreme("min"),
    "argmax": _first_extreme("max"),
    "argmin": _first_extreme("min"),
    "any": _vote("or"),
    "all": _vote("and"),
}


class Combiner:
    """Combines the elements of one reduction or scan.

    - `operation`: names its fold.
    - `kind`: numba's type of what is combined.
    - `context`: the target context.
    - `builder`: builder at the place of the instructions.
    """

    def __init__(
        self, operation: Operation, kind: Any, context: Any, builder: ir.IRBuilder
    ) -> None:
        self._fold = FOLDS[operation.attributes["fold"]]
        self._context, self._builder = context, builder
        self.kind = kind
        self.combination = self._fold.combination(context, kind)
        self.vote = self._fold.vote

    def combined(self, one: ir.Value, two: ir.Value) -> ir.Value:
        """Combine two values, the one of lower elements first."""
        return self.combination.combine(self._builder, one, two)

    def identity(self) -> ir.Value:
        """Return what changes nothing that it is combined with."""
        return self._number(self._fold.identity(self.kind))

    def nothing(self) -> ir.Value:
        """Return the result of a scan that has combined no element."""
        return self._number(self._fold.nothing)

    def _number(self, value: Any) -> ir.Value:
        return write_number(self._context, self._builder, self.kind, value)


def write_number(context: Any, builder: ir.IRBuilder, kind: Any, value: Any) -> ir.Value:
    """Return a Python number, or a tuple of numbers, as a value of a type."""
    plain = context.get_value_type(kind)
    if isinstance(kind, types.BaseTuple):
        numbers = zip(kind.types, value, strict=True)
        return ir.Constant(plain, [write_number(context, builder, *each) for each in numbers])
    if isinstance(kind, types.Boolean):
        return plain(int(value))
    if isinstance(kind, types.Integer):
        return plain(int(value) & ((1 << kind.bitwidth) - 1))
    if isinstance(kind, types.Complex):
        parts = [complex(value).real, complex(value).imag]
        return ir.Constant(plain, [ir.Constant(plain.elements[0], part) for part in parts])
    if ELEMENT_TYPES[str(kind)].is_narrow:
        single = context.get_constant(types.float32, float(value))
        return context.cast(builder, single, types.float32, kind)
    return context.get_constant(kind, float(value))


# Numbers are in their own order, with -0 before 0, and every NaN is the last. A NaN comes back from
# its integer as one NaN for all, so that equal integers are equal elements.
#
# References: M. Herf, "Radix Tricks", 2001, for integers in the order of floating-point
# numbers.
def key_bits(dtype: str) -> int:
    """Return how many bits of such an integer are not always zero."""
    row = ELEMENT_TYPES[dtype]
    return 8 * row.nbytes if row.is_integer or row.nbytes == 8 else 32


def key_type(kind: Any) -> Any:
    """Return Numba's type of the integers for a type of elements."""
    return types.uint64 if kind.bitwidth == 64 else types.uint32


def sort_key(builder: ir.IRBuilder, kind: Any, value: ir.Value) -> ir.Value:
    """Return the integer of a number."""
    wide = ir.IntType(key_type(kind).bitwidth)
    if isinstance(kind, types.Integer):
        if kind.signed:
            value = builder.xor(value, _sign(value.type))
        return value if value.type == wide else builder.zext(value, wide)
    bits = builder.bitcast(value, wide)
    negative = builder.ashr(bits, wide(wide.width - 1))
    key = builder.xor(bits, builder.or_(negative, _sign(wide)))
    return builder.select(builder.fcmp_unordered("uno", value, value), wide(-1), key)


def number_of(context: Any, builder: ir.IRBuilder, kind: Any, key: ir.Value) -> ir.Value:
    """Return the number of an integer."""
    plain = context.get_value_type(kind)
    if isinstance(kind, types.Integer):
        value = key if key.type == plain else builder.trunc(key, plain)
        return builder.xor(value, _sign(plain)) if kind.signed else value
    positive = builder.ashr(key, key.type(key.type.width - 1))
    changed = builder.or_(builder.not_(positive), _sign(key.type))
    return builder.bitcast(builder.xor(key, changed), plain)


def _sign(kind: ir.IntType) -> ir.Constant:
    return kind(1 << (kind.width - 1))
