"""Copies of small arrays in which a worker gathers atomic operations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.lowering.numba_internals.arrays import array_value, make_array
from targets.cpu.intrinsics.memory import reserve_or_place

__all__ = [
    "are_apart",
    "copy_maker",
    "identity",
    "identity_of",
    "is_touched",
    "write_apart",
    "write_touched",
]


@cache
def copy_maker(count: int, offset: int | None) -> Callable[..., Any]:
    """Make the intrinsic ``make(scratch, array) -> copy`` with the shape of the array.

    There is memory for so many elements, which the copy must not have more than when it is used. It
    holds anything.
    """

    @intrinsic
    def make(typingctx: Any, scratch: Any, array: Any) -> Any:
        copy = types.Array(array.dtype, array.ndim, "C")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            stored = ir.ArrayType(context.get_data_type(array.dtype), count)
            memory = reserve_or_place(builder, args[0], stored, offset)
            shape = make_array(array)(context, builder, args[1]).shape
            extents = tuple(cgutils.unpack_tuple(builder, shape, array.ndim))
            return array_value(context, builder, copy, memory, extents)

        return copy(types.voidptr, array), generate

    return make  # type: ignore[no-any-return]


def identity(short: str, dtype: Any, kind: Any) -> Any:
    """Return what an element is combined with and stays as it is.

    That is the negative zero for sums of floats, and a NaN, which yields to every number, for their
    extremes.
    """
    if isinstance(dtype, types.Float):
        return ir.Constant(kind, -0.0 if short == "add" else float("nan"))
    ones = (1 << dtype.bitwidth) - 1
    smallest = -(1 << (dtype.bitwidth - 1)) if dtype.signed else 0
    largest = ones >> 1 if dtype.signed else ones
    return ir.Constant(kind, {"and_": ones, "max": smallest, "min": largest}.get(short, 0))


@cache
def identity_of(short: str) -> Callable[..., Any]:
    """Make the intrinsic ``identity(array)`` of an operation on elements of an array."""

    @intrinsic
    def element(typingctx: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return identity(short, array.dtype, context.get_value_type(array.dtype))

        return array.dtype(array), generate

    return element  # type: ignore[no-any-return]


def write_touched(builder: Any, short: str, dtype: Any, value: Any) -> Any:
    """Return whether an element is not what it began as."""
    first = identity(short, dtype, value.type)
    if not isinstance(dtype, types.Float):
        return builder.icmp_signed("!=", value, first)
    if short != "add":
        return builder.fcmp_ordered("ord", value, value)
    bits = ir.IntType(dtype.bitwidth)
    one, two = (builder.bitcast(each, bits) for each in (value, first))
    return builder.icmp_signed("!=", one, two)


@cache
def is_touched(short: str) -> Callable[..., Any]:
    """Make the intrinsic ``touched(value)``: whether it is not what elements begin as."""

    @intrinsic
    def touched(typingctx: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return write_touched(builder, short, value, args[0])

        return types.boolean(value), generate

    return touched  # type: ignore[no-any-return]


def _ends(context: Any, builder: Any, kind: Any, value: Any) -> tuple[Any, Any]:
    """Return the addresses of an array's first byte and after its last one; equal if it has none.

    A stride may be negative, or 0.
    """
    array = make_array(kind)(context, builder, value)
    word = ir.IntType(64)
    low = high = builder.ptrtoint(array.data, word)
    is_empty: Any = cgutils.false_bit
    for extent, stride in zip(
        cgutils.unpack_tuple(builder, array.shape, kind.ndim),
        cgutils.unpack_tuple(builder, array.strides, kind.ndim),
        strict=True,
    ):
        zero, one = word(0), word(1)
        is_empty = builder.or_(is_empty, builder.icmp_signed("==", extent, zero))
        span = builder.mul(builder.sub(extent, one), stride)
        is_back = builder.icmp_signed("<", span, zero)
        low = builder.add(low, builder.select(is_back, span, zero))
        high = builder.add(high, builder.select(is_back, zero, span))
    size = word(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
    return low, builder.select(is_empty, low, builder.add(high, size))


def write_apart(context: Any, builder: Any, kinds: tuple[Any, Any], values: tuple[Any, Any]) -> Any:
    """Return whether two arrays lie in ranges of memory that have no byte in common."""
    first = _ends(context, builder, kinds[0], values[0])
    second = _ends(context, builder, kinds[1], values[1])
    is_before = builder.icmp_unsigned("<=", first[1], second[0])
    return builder.or_(is_before, builder.icmp_unsigned("<=", second[1], first[0]))


@intrinsic
def are_apart(typingctx: Any, one: Any, two: Any) -> Any:
    """Return the same of two arrays."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return write_apart(context, builder, (one, two), (args[0], args[1]))

    return types.boolean(one, two), generate
