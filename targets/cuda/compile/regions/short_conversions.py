"""Convert integers of 64 bits to floats as ones of 32 bits, if their range says that they fit.

A multiprocessor converts fewer numbers of 64 bits in a cycle than of 32 bits. LLVM narrows what was
widened just before. It does not know the ranges of loop counters and indices.

References
----------
CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions": type conversions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.emission import Emitter
from kerneldsl.ir.operations import Value
from kerneldsl.ir.ranges import Interval

__all__ = ["convert_short"]

_I32 = ir.IntType(32)
_FLOATS = {32: ir.FloatType(), 64: ir.DoubleType()}


def convert_short(
    emitter: Emitter, value: Value, kind: Any, known: Mapping[Value, Interval]
) -> ir.Value | None:
    """Write a conversion from 64 bits to a float by 32 bits; return ``None`` if it may not fit."""
    is_float = isinstance(kind, types.Float) and kind.bitwidth in _FLOATS
    if not is_float or not isinstance(value.type, types.Integer) or value.type.bitwidth != 64:
        return None
    interval = known.get(value)
    if interval is None:
        return None
    low, high = interval
    convert = None
    if low >= 0 and high < 2**32:
        convert = emitter.builder.uitofp
    elif low >= -(2**31) and high < 2**31:
        convert = emitter.builder.sitofp
    if convert is None:
        return None
    return convert(emitter.builder.trunc(emitter.get(value), _I32), _FLOATS[kind.bitwidth])
