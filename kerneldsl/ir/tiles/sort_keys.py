"""Unsigned integers that are in the order in which a tile's elements are sorted.

Numbers are in their own order, with -0 before 0, and every NaN is the last. A NaN comes back from
its integer as one NaN for all, so that equal integers are equal elements.

References
----------
M. Herf, "Radix Tricks", 2001, for integers in the order of floating-point numbers.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.language.element_types import ELEMENT_TYPES

__all__ = ["key_bits", "key_type", "number_of", "sort_key"]


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
