"""Conversions between float32 and the floating-point numbers of 8 bits, in integer instructions.

Both round to nearest, ties to even, and do not saturate, as in ml_dtypes and torch. A number beyond
the largest one becomes an infinity of float8_e5m2. It becomes a NaN of float8_e4m3fn, which has no
infinity. NVIDIA's instructions for these conversions saturate, so they are not used.

float8_e8m0fnu has powers of two alone, and NaN: the scales of blocks of narrower numbers. It has no
sign and no zero. What is between two powers is rounded to the nearest, up in the middle, and up to
the second least power.

References
----------
P. Micikevicius et al., "FP8 formats for deep learning", arXiv:2209.05433 (2022), table 1; Open
Compute Project, "8-bit Floating Point Specification (OFP8)", revision 1.0, and "Microscaling
Formats (MX)", version 1.0.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["from_bits", "to_bits"]

_F32, _I32, _I8 = ir.FloatType(), ir.IntType(32), ir.IntType(8)
#: Bits of a float32's fraction, and the bias of its exponent.
_FRACTION, _BIAS = 23, 127
#: Bits of a float32 that is infinite, and of one that is no number.
_INFINITY, _NAN = 0x7F800000, 0x7FC00000


@dataclass(frozen=True)
class _Format:
    """One format of 8 bits: a sign, an exponent and a fraction."""

    #: Number of bits of the fraction.
    fraction: int
    #: Bias of the exponent.
    bias: int
    #: Bits of the smallest magnitude that overflows.
    overflow: int
    #: The magnitude of the NaN that conversions give; every larger one and those above `overflow`
    #: are NaN too.
    nan: int


_FORMATS = {
    "float8_e4m3fn": _Format(fraction=3, bias=7, overflow=0x7F, nan=0x7F),
    "float8_e5m2": _Format(fraction=2, bias=15, overflow=0x7C, nan=0x7E),
}


def to_bits(builder: ir.IRBuilder, dtype: str, value: ir.Value) -> ir.Value:
    """Return the bits, an ``i8``, of the number of a format that is nearest to a float."""
    return builder.call(_function(builder.module, "to", dtype, _I8, _F32), [value])


def from_bits(builder: ir.IRBuilder, dtype: str, bits: ir.Value) -> ir.Value:
    """Return the float of the bits of a format; of a NaN the quiet one of its sign."""
    return builder.call(_function(builder.module, "from", dtype, _F32, _I8), [bits])


def begin_conversion(
    module: ir.Module, name: str, result: ir.Type, argument: ir.Type
) -> tuple[ir.Function, ir.IRBuilder]:
    """Begin a function of a module that is inlined wherever a number is converted."""
    function = ir.Function(module, ir.FunctionType(result, [argument]), name)
    function.linkage = "linkonce_odr"
    function.attributes.add("alwaysinline")
    return function, ir.IRBuilder(function.append_basic_block())


def _function(
    module: ir.Module, way: str, dtype: str, result: ir.Type, argument: ir.Type
) -> ir.Function:
    """Return the function of a module for a conversion to or from a type."""
    name = f"{RESERVED_PREFIX}{way}_{dtype}"
    known = module.globals.get(name)
    if known is not None:
        return known
    function, builder = begin_conversion(module, name, result, argument)
    (value,), form = function.args, _FORMATS.get(dtype)
    if form is None:
        found = _exponent(builder, value) if way == "to" else _power(builder, value)
    else:
        found = (_narrow if way == "to" else _widen)(builder, form, value)
    builder.ret(found)
    return function


def _exponent(builder: ir.IRBuilder, value: ir.Value) -> ir.Value:
    """Return the exponent of the nearest power of two, with its bias; of other numbers a NaN's."""
    bits = builder.bitcast(value, _I32)
    half = _I32(1 << (_FRACTION - 1))  # also the bits of the least power, which is subnormal
    normal = builder.lshr(builder.add(bits, half), _I32(_FRACTION))
    subnormal = builder.zext(builder.icmp_unsigned(">", bits, half), _I32)
    is_normal = builder.icmp_unsigned(">=", bits, _I32(1 << _FRACTION))
    found = builder.select(is_normal, normal, subnormal)
    # Zero wraps around to the largest number, like negative numbers, infinities and NaN.
    before = builder.sub(bits, _I32(1))
    has_one = builder.icmp_unsigned("<", before, _I32(_INFINITY - 1))
    return builder.trunc(builder.select(has_one, found, _I32(0xFF)), _I8)


def _power(builder: ir.IRBuilder, bits: ir.Value) -> ir.Value:
    """Return the power of two of an exponent with its bias; the largest exponent is a NaN's."""
    wide = builder.zext(bits, _I32)
    is_least = builder.icmp_unsigned("==", wide, _I32(0))
    normal = builder.shl(wide, _I32(_FRACTION))
    found = builder.select(is_least, _I32(1 << (_FRACTION - 1)), normal)
    is_nan = builder.icmp_unsigned("==", wide, _I32(0xFF))
    return builder.bitcast(builder.select(is_nan, _I32(_NAN), found), _F32)


def _narrow(builder: ir.IRBuilder, form: _Format, value: ir.Value) -> ir.Value:
    bits = builder.bitcast(value, _I32)
    magnitude = builder.and_(bits, _I32(0x7FFFFFFF))
    dropped = _FRACTION - form.fraction
    normal = _rounded(builder, magnitude, _I32(dropped))
    normal = builder.sub(normal, _I32((_BIAS - form.bias) << form.fraction))
    # The exponent of the least normal number is 1. Below it, the fraction with its leading 1 is
    # shifted further, at most until it is 0.
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
    is_nan = builder.icmp_unsigned(">", magnitude, _I32(_INFINITY))
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
    # An infinity if the type has one, then the NaNs above it.
    if form.overflow != form.nan:
        is_infinite = builder.icmp_unsigned("==", magnitude, _I32(form.overflow))
        found = builder.select(is_infinite, _I32(_INFINITY), found)
    first_nan = form.overflow + (form.overflow != form.nan)
    is_nan = builder.icmp_unsigned(">=", magnitude, _I32(first_nan))
    found = builder.select(is_nan, _I32(_NAN), found)
    sign = builder.shl(builder.and_(wide, _I32(0x80)), _I32(24))
    return builder.bitcast(builder.or_(found, sign), _F32)
