"""Conversion of floats of 8 bits in registers to floats of 16."""

from __future__ import annotations

from llvmlite import ir

from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["as_half_pairs"]

_I32 = ir.IntType(32)
_HALVES, _WORDS = ir.VectorType(ir.HalfType(), 2), ir.VectorType(ir.IntType(16), 2)
#: Bytes of (word, zero) for ``prmt``: each byte above a byte of zeros.
_SPREAD = 0x1404, 0x3424
#: float8_e4m3fn has an exponent of four bits with a bias of 7, float16 of five with a bias of 15.
_SCALE = 2.0**8


def as_half_pairs(builder: ir.IRBuilder, dtype: str, word: ir.Value) -> list[ir.Value]:
    """Return four numbers in a register as two registers of two numbers each.

    The conversion is exact. A float8_e5m2 is the upper byte of a float16.
    """
    found = []
    for places in _SPREAD:
        pair = call_nvvm(builder, "prmt", _I32, [word, _I32(0), _I32(places)])
        found.append(pair if dtype == "float8_e5m2" else _of_e4m3(builder, pair))
    return found


def _of_e4m3(builder: ir.IRBuilder, pair: ir.Value) -> ir.Value:
    magnitude = builder.and_(pair, _I32(0x7F007F00))
    bits = builder.or_(builder.lshr(magnitude, _I32(1)), builder.and_(pair, _I32(0x80008000)))
    scale = ir.Constant(_HALVES, [_SCALE, _SCALE])
    number = builder.bitcast(builder.fmul(builder.bitcast(bits, _HALVES), scale), _WORDS)
    # All bits of the magnitude are set in its only NaN.
    nan = ir.Constant(_WORDS, [0x7F00, 0x7F00])
    is_nan = builder.icmp_unsigned("==", builder.bitcast(magnitude, _WORDS), nan)
    found = builder.select(is_nan, ir.Constant(_WORDS, [0x7E00, 0x7E00]), number)
    return builder.bitcast(found, _I32)
