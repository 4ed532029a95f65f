"""Dates and durations for Numba: integers of 64 bits with a unit. The smallest is NaT.

Operators give what NumPy's give. Numba has such types, too, but its quotients of negative numbers
differ from NumPy's.

Importing this module registers dates and durations with Numba, for every target.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import lower_builtin, lower_cast, models, register_model

from kerneldsl.frontend.operators import COMPARISONS, SYMBOLS, also_in_place
from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.times import NAT, common_unit, unit_factor, unit_of
from kerneldsl.lowering.numba_internals.operators import (
    AbstractTemplate,
    Conversion,
    builtin_registry,
)

__all__ = ["TimeType", "time_type"]

_I64, _F64 = ir.IntType(64), ir.DoubleType()
_NAT = _I64(NAT)


class TimeType(types.Type):
    """Dates or, if `is_duration`, durations of a unit."""

    def __init__(self, row: ElementType) -> None:
        self.unit = unit_of(row.name)
        self.is_duration = row.is_duration
        self.bitwidth = 64
        super().__init__(name=row.name)

    def can_convert_to(self, typingctx: Any, other: Any) -> Any:
        """Return how it becomes one of a finer unit."""
        if not isinstance(other, TimeType) or self.is_duration != other.is_duration:
            return None
        return None if unit_factor(self.unit, other.unit) is None else Conversion.promote


register_model(TimeType)(models.IntegerModel)


@cache
def time_type(row: ElementType) -> TimeType:
    """Return the Numba type of the element type of dates or durations."""
    return TimeType(row)


def _of_unit(unit: str, *, is_duration: bool) -> TimeType:
    return time_type(ELEMENT_TYPES[f"{'timedelta' if is_duration else 'datetime'}64[{unit}]"])


# --------------------------------------------------------------------------- types


def _of_sum(one: Any, two: Any) -> Any:
    unit = _shared_unit(one, two)
    if unit is None or not (one.is_duration or two.is_duration):
        return None
    return _of_unit(unit, is_duration=one.is_duration and two.is_duration)


def _of_difference(one: Any, two: Any) -> Any:
    unit = _shared_unit(one, two)
    if unit is None or (one.is_duration and not two.is_duration):
        return None
    return _of_unit(unit, is_duration=one.is_duration == two.is_duration)


def _of_product(one: Any, two: Any) -> Any:
    duration, number = (one, two) if _is_duration(one) else (two, one)
    return duration if _is_duration(duration) and isinstance(number, types.Integer) else None


def _of_quotient(ratio: types.Type) -> Callable[[Any, Any], Any]:
    def result(one: Any, two: Any) -> Any:
        if not _is_duration(one):
            return None
        if isinstance(two, types.Integer):
            return one
        return ratio if _is_duration(two) and _shared_unit(one, two) else None

    return result


def _of_remainder(one: Any, two: Any) -> Any:
    if not _is_duration(one) or not _is_duration(two):
        return None
    unit = _shared_unit(one, two)
    return None if unit is None else _of_unit(unit, is_duration=True)


def _of_comparison(one: Any, two: Any) -> Any:
    is_one_kind = _shared_unit(one, two) and one.is_duration == two.is_duration
    return types.boolean if is_one_kind else None


def _of_itself(one: Any) -> Any:
    return one if _is_duration(one) else None


def _is_duration(kind: Any) -> bool:
    return isinstance(kind, TimeType) and kind.is_duration


def _shared_unit(one: Any, two: Any) -> str | None:
    are_times = isinstance(one, TimeType) and isinstance(two, TimeType)
    return common_unit(one.unit, two.unit) if are_times else None


# --------------------------------------------------------------------------- values

_Values = Sequence[ir.Value]


def _scaled(builder: ir.IRBuilder, value: ir.Value, factor: int | None) -> ir.Value:
    """Multiply what is no NaT."""
    assert factor is not None
    if factor == 1:
        return value
    return builder.select(_is_nat(builder, value), _NAT, builder.mul(value, _I64(factor)))


def _is_nat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    return builder.icmp_signed("==", value, _NAT)


def _or_nat(builder: ir.IRBuilder, times: _Values, value: ir.Value) -> ir.Value:
    """Return a value, or NaT where one of the times is."""
    for time in times:
        value = builder.select(_is_nat(builder, time), _NAT, value)
    return value


def _floor_division(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return quotient and remainder. The remainder has the divisor's sign."""
    quotient, remainder = builder.sdiv(a, b), builder.srem(a, b)
    zero = _I64(0)
    has_rest = builder.icmp_signed("!=", remainder, zero)
    differs = builder.icmp_signed("<", builder.xor(remainder, b), zero)
    is_below = builder.and_(has_rest, differs)
    below = builder.sub(quotient, _I64(1))
    return (
        builder.select(is_below, below, quotient),
        builder.select(is_below, builder.add(remainder, b), remainder),
    )


def _divisor(builder: ir.IRBuilder, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Return a divisor that is not 0, and whether it was."""
    is_zero = builder.icmp_signed("==", value, _I64(0))
    return builder.select(is_zero, _I64(1), value), is_zero


def _add(builder: ir.IRBuilder, times: _Values, a: ir.Value, b: ir.Value) -> ir.Value:
    return _or_nat(builder, times, builder.add(a, b))


def _subtract(builder: ir.IRBuilder, times: _Values, a: ir.Value, b: ir.Value) -> ir.Value:
    return _or_nat(builder, times, builder.sub(a, b))


def _multiply(builder: ir.IRBuilder, times: _Values, a: ir.Value, b: ir.Value) -> ir.Value:
    return _or_nat(builder, times, builder.mul(a, b))


def _divide(builder: ir.IRBuilder, times: _Values, a: ir.Value, b: ir.Value) -> ir.Value:
    if len(times) == 2:
        a, b = builder.sitofp(a, _F64), builder.sitofp(b, _F64)
        value = builder.fdiv(a, b)
        for time in times:
            value = builder.select(_is_nat(builder, time), _F64(float("nan")), value)
        return value
    b, is_zero = _divisor(builder, b)
    value = builder.select(is_zero, _NAT, builder.sdiv(_no_nat(builder, a), b))
    return _or_nat(builder, times, value)


def _no_nat(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return what can be divided by -1 too: 0 for NaT."""
    return builder.select(_is_nat(builder, value), _I64(0), value)


def _floor_divide(builder: ir.IRBuilder, times: _Values, a: ir.Value, b: ir.Value) -> ir.Value:
    if len(times) == 1:
        return _divide(builder, times, a, b)  # as NumPy, which does not round down
    b, is_zero = _divisor(builder, b)
    quotient, _ = _floor_division(builder, _no_nat(builder, a), b)
    for time in times:
        is_zero = builder.or_(is_zero, _is_nat(builder, time))
    return builder.select(is_zero, _I64(0), quotient)


def _modulo(builder: ir.IRBuilder, times: _Values, a: ir.Value, b: ir.Value) -> ir.Value:
    b, is_zero = _divisor(builder, b)
    _, remainder = _floor_division(builder, _no_nat(builder, a), b)
    return _or_nat(builder, times, builder.select(is_zero, _NAT, remainder))


def _comparing(sign: str) -> Callable[..., ir.Value]:
    def compare(builder: ir.IRBuilder, times: _Values, a: ir.Value, b: ir.Value) -> ir.Value:
        """Compare two; NaT is different from all, also from itself, and not in their order."""
        found = builder.icmp_signed(sign, a, b)
        for time in times:
            is_nat = _is_nat(builder, time)
            is_other = ir.IntType(1)(sign == "!=")
            found = builder.select(is_nat, is_other, found)
        return found

    return compare


def _negate(builder: ir.IRBuilder, times: _Values, a: ir.Value) -> ir.Value:
    return builder.sub(_I64(0), a)  # of NaT it is NaT


def _absolute(builder: ir.IRBuilder, times: _Values, a: ir.Value) -> ir.Value:
    is_negative = builder.icmp_signed("<", a, _I64(0))
    return builder.select(is_negative, builder.sub(_I64(0), a), a)


# --------------------------------------------------------------------------- operators


class _OfTimes(AbstractTemplate):
    """Types an operator by the function that gives its result, where one operand is a time."""

    result: Callable[..., Any]
    operands: int

    def generic(self, args: Any, kws: Any) -> Any:
        """Return the signature; integers are converted to int64."""
        if kws or len(args) != self.operands:
            return None
        if not any(isinstance(arg, TimeType) for arg in args):
            return None
        found = self.result(*map(types.unliteral, args))
        if found is None:
            return None
        return found(*[types.int64 if isinstance(arg, types.Integer) else arg for arg in args])


def _declare(spelled: Any, result: Callable[..., Any], compute: Callable[..., ir.Value]) -> None:
    operands = 1 if result is _of_itself else 2
    members = {"key": spelled, "result": staticmethod(result), "operands": operands}
    template = type(f"Times({spelled.__name__})", (_OfTimes,), members)
    builtin_registry.register_global(spelled)(template)

    def perform(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        pairs = list(zip(sig.args, args, strict=True))
        times = [arg for kind, arg in pairs if isinstance(kind, TimeType)]
        if len(times) == 2:
            unit = _shared_unit(*sig.args)
            assert unit is not None
            args = [_scaled(builder, arg, unit_factor(kind.unit, unit)) for kind, arg in pairs]
        return compute(builder, times, *args)

    if operands == 1:
        lower_builtin(spelled, TimeType)(perform)
        return
    for kinds in ((TimeType, TimeType), (TimeType, types.Integer), (types.Integer, TimeType)):
        lower_builtin(spelled, *kinds)(perform)


for _function, _result, _compute in (
    (operator.add, _of_sum, _add),
    (operator.sub, _of_difference, _subtract),
    (operator.mul, _of_product, _multiply),
    (operator.truediv, _of_quotient(types.float64), _divide),
    (operator.floordiv, _of_quotient(types.int64), _floor_divide),
    (operator.mod, _of_remainder, _modulo),
):
    for _spelled in also_in_place([_function]):
        _declare(_spelled, _result, _compute)
for _function in COMPARISONS.values():
    _declare(_function, _of_comparison, _comparing(SYMBOLS[_function]))
_declare(operator.neg, _of_itself, _negate)
_declare(operator.pos, _of_itself, lambda builder, times, a: a)
_declare(abs, _of_itself, _absolute)


@lower_cast(TimeType, TimeType)
def _converted(context: Any, builder: ir.IRBuilder, fromty: Any, toty: Any, value: Any) -> Any:
    """Convert to a finer unit."""
    return _scaled(builder, value, unit_factor(fromty.unit, toty.unit))
