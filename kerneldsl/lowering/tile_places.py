"""Make the index of a tile's first element a number with which targets can compute."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

__all__ = ["tile_place"]

_i64 = ir.IntType(64)
#: Beyond this no array has an element, and so far from it sums and differences do not wrap.
_FARTHEST = 1 << 62


def tile_place(builder: ir.IRBuilder, kind: Any, value: ir.Value) -> ir.Value:
    """Return an integer of Numba's type `kind` as 64 bits with a sign, at most 2⁶² from 0."""
    if kind.bitwidth < 64:
        return (builder.sext if kind.signed else builder.zext)(value, _i64)
    compare = builder.icmp_signed if kind.signed else builder.icmp_unsigned
    far = _i64(_FARTHEST)
    place = builder.select(compare("<", value, far), value, far)
    if kind.signed:
        near = _i64(-_FARTHEST)
        place = builder.select(compare(">", place, near), place, near)
    return place
