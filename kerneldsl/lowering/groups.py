"""Combine two values of a group into one, in LLVM's instructions of every machine.

Targets decide which values meet, and in which order; here is what happens to two that do.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.lowering.calls import Call
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "EXACT",
    "WIDTHS",
    "Combination",
    "Sum",
    "WrittenOperation",
    "after_initial",
    "combination",
    "combination_of",
    "fenced",
    "is_any",
    "sorts_before",
]

#: A flag without a meaning for additions and products. Neither Numba nor the CUDA target contracts
#: an operation that has a flag. Threads that add the same two numbers must get the same sum, also
#: if one of them was just multiplied.
EXACT = ("arcp",)
#: Lanes of a half of a part of a warp, in the levels of a tree.
WIDTHS = (1, 2, 4, 8, 16)


@dataclass(frozen=True)
class Combination(ABC):
    """An associative operation on two values of a Numba type."""

    #: Target context, which determines the representation of types.
    context: Any
    #: Numba's type of the values.
    kind: Any

    @property
    def value_type(self) -> ir.Type:
        """LLVM's type of the values while they are combined."""
        return self.context.get_value_type(self.kind)

    @property
    def is_called(self) -> bool:
        """True if it is a call of a device function."""
        return False

    @property
    def is_vectorizable(self) -> bool:
        """True if it also combines vectors of values."""
        return isinstance(self.value_type, ir.IntType | ir.FloatType | ir.DoubleType)

    @abstractmethod
    def combine(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        """Combine two values, the one of the lower thread first."""

    @property
    def neutral(self) -> ir.Constant:
        """The number that leaves every bit of another one as it is.

        Vectorizable operations alone have one.
        """
        raise NotImplementedError(f"{type(self).__name__} has no neutral element")

    def finish(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        """Return a result as a value of the type."""
        return value


@dataclass(frozen=True)
class Sum(Combination):
    """Adds; numbers of 16 bits as float32, with a sum that is rounded once."""

    def combine(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        if isinstance(self.kind, types.Complex):
            whole = a
            for part in range(2):
                one, two = (builder.extract_value(each, part) for each in (a, b))
                whole = builder.insert_value(whole, builder.fadd(one, two, flags=EXACT), part)
            return whole
        if isinstance(self.kind, types.Float):
            return builder.fadd(a, b, flags=EXACT)
        return builder.add(a, b)

    @property
    def neutral(self) -> ir.Constant:
        is_float = isinstance(self.kind, types.Float)
        return ir.Constant(self.value_type, -0.0 if is_float else 0)

    def finish(self, builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
        if isinstance(self.kind, types.Float) and self.kind.bitwidth < 32:
            return self.context.cast(builder, value, types.float32, self.kind)
        return value


@dataclass(frozen=True)
class _Extreme(Combination):
    """Takes the larger or the smaller of two: a NaN yields to a number, and -0 is below 0."""

    #: ``"max"`` or ``"min"``.
    which: str

    def combine(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        if isinstance(self.kind, types.Float):
            name = f"{self.which}imumnum"  # IEEE 754-2019, section 9.6, maximumNumber
        else:
            name = f"{'s' if self.kind.signed else 'u'}{self.which}"
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(a.type, [a.type, a.type]),
            f"llvm.{name}.{_mangled(a.type)}",
        )
        return builder.call(function, [a, b])

    @property
    def neutral(self) -> ir.Constant:
        if isinstance(self.kind, types.Float):
            return ir.Constant(self.value_type, math.nan)
        bits = self.value_type.width - (1 if self.kind.signed else 0)
        largest, smallest = (1 << bits) - 1, -(1 << bits) if self.kind.signed else 0
        return ir.Constant(self.value_type, smallest if self.which == "max" else largest)


class WrittenOperation(types.Opaque):
    """Type of an operation of two values that is written in the place of its calls."""

    def __init__(self, write: Callable[[ir.Value, ir.Value], ir.Value] | None = None) -> None:
        super().__init__(f"operation({id(write)})")
        self.write = write


@dataclass(frozen=True)
class _Written(Combination):
    """Writes the body of a device function."""

    operation: WrittenOperation

    @property
    def is_called(self) -> bool:
        return True

    @property
    def is_vectorizable(self) -> bool:
        return False

    def combine(self, builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        assert self.operation.write is not None
        return self.operation.write(a, b)


def _mangled(kind: ir.Type) -> str:
    """Return a type as names of LLVM's functions hold it."""
    if isinstance(kind, ir.VectorType):
        return f"v{kind.count}{_mangled(kind.element)}"
    return str(kind.intrinsic_name)


def combination(name: str, call: Call) -> Combination:
    """Return what combines the values of one call.

    `name` is the intrinsic's: a reduction's own, or a scan's.
    """
    context, kind = call.context, call.signature.return_type
    for argument in call.signature.args:
        if isinstance(argument, WrittenOperation):
            return _Written(context, kind, argument)
    return combination_of(name.partition(".")[2], context, kind)


def combination_of(operation: str, context: Any, kind: Any) -> Combination:
    """Return what combines values of a Numba type: ``"max"``, ``"min"``, or by adding them."""
    if operation in ("max", "min"):
        return _Extreme(context, kind, operation)
    return Sum(context, kind)


def is_any(builder: ir.IRBuilder, lanes: ir.Value) -> ir.Value:
    """Return whether one of some lanes, as bits, is set."""
    return builder.icmp_unsigned("!=", lanes, lanes.type(0))


def sorts_before(builder: ir.IRBuilder, kind: Any, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return whether a key belongs before another one; NaN are the last ones, and equal."""
    if not isinstance(kind, types.Float):
        compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
        return compare("<", a, b)
    is_number = builder.fcmp_ordered("ord", a, a)
    is_before_nan = builder.and_(is_number, builder.fcmp_unordered("uno", b, b))
    return builder.or_(builder.fcmp_ordered("<", a, b), is_before_nan)


def after_initial(call: Call, found: Combination, has_any: ir.Value, before: ir.Value) -> ir.Value:
    """Return what a thread of an exclusive scan gets.

    `before` are the values before the thread's, combined, if `has_any` says that there are any.
    The last argument of the call is what the scan begins with, or ``None``.
    """
    builder = call.builder
    if call.signature.args[-1] == types.none:
        return builder.select(has_any, before, found.value_type(None))
    initial = call.args[-1]
    return builder.select(has_any, found.combine(builder, initial, before), initial)


def fenced(call: Call, value: ir.Value) -> ir.Value:
    """Return a value with which nothing is contracted that a device function computes of it."""
    is_called = any(isinstance(argument, WrittenOperation) for argument in call.signature.args)
    if not is_called or not isinstance(value.type, ir.FloatType | ir.DoubleType):
        return value
    function = cgutils.get_or_insert_function(
        call.builder.module,
        ir.FunctionType(value.type, [value.type]),
        f"llvm.arithmetic.fence.{_mangled(value.type)}",
    )
    return call.builder.call(function, [value])
