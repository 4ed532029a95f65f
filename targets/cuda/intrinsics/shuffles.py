"""Shuffles of values of 32 and 64 bits.

References
----------
PTX ISA, section "Data Movement and Conversion Instructions: shfl.sync".
"""

from __future__ import annotations

from llvmlite import ir

from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["shuffle"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)


def shuffle(
    builder: ir.IRBuilder, mode: str, mask: ir.Value, value: ir.Value, lane: ir.Value
) -> ir.Value:
    """Exchange registers of 32 bits: one of them, or the two halves of a value of 64 bits.

    `mode` is "idx", "up", "down" or "bfly".
    """
    # The last lane whose index is in range; segments of the whole warp.
    clamp = _I32(0x00 if mode == "up" else 0x1F)

    def exchange(part: ir.Value) -> ir.Value:
        return call_nvvm(builder, f"shfl.sync.{mode}.i32", _I32, [mask, part, lane, clamp])

    kind = value.type
    if kind in (_I32, ir.FloatType()):
        return builder.bitcast(exchange(builder.bitcast(value, _I32)), kind)
    bits = builder.bitcast(value, _I64)
    low = exchange(builder.trunc(bits, _I32))
    high = exchange(builder.trunc(builder.lshr(bits, _I64(32)), _I32))
    whole = builder.or_(builder.zext(low, _I64), builder.shl(builder.zext(high, _I64), _I64(32)))
    return builder.bitcast(whole, kind)
