"""Conversions between float32 and the floating-point numbers of 8 bits, in integer instructions.

Both round to nearest, ties to even, and saturate nowhere, as ml_dtypes and torch do: what lies
beyond the largest number becomes an infinity of float8_e5m2, and a NaN of float8_e4m3fn, which has
no infinity. NVIDIA's instructions for these conversions saturate, so that none is used.

References
----------
P. Micikevicius et al., "FP8 formats for deep learning", arXiv:2209.05433 (2022), table 1; Open
Compute Project, "8-bit Floating Point Specification (OFP8)", revision 1.0.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["FORMATS", "from_bits", "to_bits"]

_F32, _I32, _I8 = ir.FloatType(), ir.IntType(32), ir.IntType(8)
#: Bits of a float32's fraction, and what is added to its exponent.
_FRACTION, _BIAS = 23, 127


@dataclass(frozen=True)
class _Format:
    """One format of 8 bits: a sign, an exponent and a fraction.

    Parameters
    ----------
    fraction : int
        Number of bits of the fraction.
    bias : int
        What is added to the exponent.
    overflow : int
        The magnitude, as bits, of what is too large.
    nan : int
        The magnitude of the NaN that conversions give; every larger one and those above `overflow`
        are NaN too.
    """

    fraction: int
    bias: int
    overflow: int
    nan: int


FORMATS = {
    "float8_e4m3fn": _Format(fraction=3, bias=7, overflow=0x7F, nan=0x7F),
    "float8_e5m2": _Format(fraction=2, bias=15, overflow=0x7C, nan=0x7E),
}


def to_bits(builder: ir.IRBuilder, dtype: str, value: ir.Value) -> ir.Value:
    """Return the bits, an ``i8``, of the number of a format that is nearest to a float."""
    return builder.call(_function(builder.module, f"to_{dtype}", _I8, _F32, _narrow), [value])


def from_bits(builder: ir.IRBuilder, dtype: str, bits: ir.Value) -> ir.Value:
    """Return the float of the bits of a format; of a NaN the quiet one of its sign."""
    return builder.call(_function(builder.module, f"from_{dtype}", _F32, _I8, _widen), [bits])


def _function(
    module: ir.Module,
    purpose: str,
    result: ir.Type,
    argument: ir.Type,
    write: Callable[[ir.IRBuilder, _Format, ir.Value], ir.Value],
) -> ir.Function:
    """Return the function of a module for a conversion, which `write` gives its body."""
    name = f"{RESERVED_PREFIX}{purpose}"
    known = module.globals.get(name)
    if known is not None:
        return known
    function = ir.Function(module, ir.FunctionType(result, [argument]), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("alwaysinline")
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(write(builder, FORMATS[purpose.partition("_")[2]], function.args[0]))
    return function


def _narrow(builder: ir.IRBuilder, form: _Format, value: ir.Value) -> ir.Value:
    bits = builder.bitcast(value, _I32)
    magnitude = builder.and_(bits, _I32(0x7FFFFFFF))
    dropped = _FRACTION - form.fraction
    normal = _rounded(builder, magnitude, _I32(dropped))
    normal = builder.sub(normal, _I32((_BIAS - form.bias) << form.fraction))
    # Below the least normal number, whose exponent is 1, the fraction with its leading 1 is shifted
    # further, by no more than what leaves nothing of it.
    exponent = builder.lshr(magnitude, _I32(_FRACTION))
    least = _BIAS - form.bias + 1
    further = builder.add(builder.sub(_I32(least), exponent), _I32(dropped))
    is_far = builder.icmp_unsigned(">", further, _I32(_FRACTION + 2))
    further = builder.select(is_far, _I32(_FRACTION + 2), further)
    fraction = builder.and_(magnitude, _I32((1 << _FRACTION) - 1))
    subnormal = _rounded(builder, builder.or_(fraction, _I32(1 << _FRACTION)), further)
    is_normal = builder.icmp_unsigned(">=", magnitude, _I32(least << _FRACTION))
    found = builder.select(is_normal, normal, subnormal)
    is_large = builder.icmp_unsigned(">", found, _I32(form.overflow))
    found = builder.select(is_large, _I32(form.overflow), found)
    is_nan = builder.icmp_unsigned(">", magnitude, _I32(0x7F800000))
    found = builder.select(is_nan, _I32(form.nan), found)
    sign = builder.and_(builder.lshr(bits, _I32(24)), _I32(0x80))
    return builder.trunc(builder.or_(found, sign), _I8)


def _rounded(builder: ir.IRBuilder, number: ir.Value, shift: ir.Value) -> ir.Value:
    """Return a number without its last bits, rounded to nearest, ties to even."""
    last = builder.and_(builder.lshr(number, shift), _I32(1))
    below_half = builder.sub(builder.shl(_I32(1), builder.sub(shift, _I32(1))), _I32(1))
    return builder.lshr(builder.add(number, builder.add(below_half, last)), shift)


def _widen(builder: ir.IRBuilder, form: _Format, bits: ir.Value) -> ir.Value:
    wide = builder.zext(bits, _I32)
    magnitude = builder.and_(wide, _I32(0x7F))
    aligned = builder.shl(magnitude, _I32(_FRACTION - form.fraction))
    normal = builder.add(aligned, _I32((_BIAS - form.bias) << _FRACTION))
    # Below the least normal number it is a multiple of the least one, which is exact.
    unit = ir.Constant(_F32, 2.0 ** (1 - form.bias - form.fraction))
    multiple = builder.fmul(builder.uitofp(magnitude, _F32), unit)
    is_normal = builder.icmp_unsigned(">=", magnitude, _I32(1 << form.fraction))
    found = builder.select(is_normal, normal, builder.bitcast(multiple, _I32))
    # An infinity where there is one, then what is above it.
    if form.overflow != form.nan:
        is_infinite = builder.icmp_unsigned("==", magnitude, _I32(form.overflow))
        found = builder.select(is_infinite, _I32(0x7F800000), found)
    first_nan = form.overflow + (form.overflow != form.nan)
    is_nan = builder.icmp_unsigned(">=", magnitude, _I32(first_nan))
    found = builder.select(is_nan, _I32(0x7FC00000), found)
    sign = builder.shl(builder.and_(wide, _I32(0x80)), _I32(24))
    return builder.bitcast(builder.or_(found, sign), _F32)
