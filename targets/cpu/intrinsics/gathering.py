"""Copies of small arrays in which a worker gathers atomic operations."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.lowering.numba_internals.arrays import make_array

__all__ = ["identity", "write_apart", "write_touched"]


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
