"""Conversions of floats on processors: to integers, and between float16 and float32.

To integers, limits are comparisons, which LLVM vectorizes. LLVM's ``llvm.fptosi.sat`` has the same
values, but its vectorizer leaves it to single elements.

For float16, LLVM calls functions of its C runtime library on processors without an instruction for
it. These are x86 processors without F16C, and those with AVX that Numba does not use. A process
need not have that library, so code that computes in float16 contains these functions.

References
----------
LLVM, compiler-rt, ``extendhfsf2.c`` and ``truncsfhf2.c``; F. Giesen, "Float->half variants"
(``float_to_half_fast3_rtne``, public domain).
"""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import llvmlite.binding as llvm

from kerneldsl.lowering.float_conversions import FloatConversion

__all__ = ["CONVERSIONS", "add_missing", "write_conversion"]

#: Bits of a float's whole numbers that are all exact.
_EXACT_BITS = {"float": 24, "double": 53}

_PROBE = """
define void @probe(ptr %place) {
  %stored = load half, ptr %place
  %value = fpext half %stored to float
  %sum = fadd float %value, 1.0
  %rounded = fptrunc float %sum to half
  store half %rounded, ptr %place
  ret void
}
"""
#: Names of the conversions, by which LLVM calls them after it has optimized a module.
CONVERSIONS = ("__extendhfsf2", "__truncsfhf2")
_CONVERSIONS = """
define float @__extendhfsf2(half %value) {
  %short = bitcast half %value to i16
  %bits = zext i16 %short to i32
  %magnitude = and i32 %bits, 32767
  %sign = and i32 %bits, 32768
  %moved = shl i32 %magnitude, 13
  ; As a float32 of the same exponent bits it is 2**112 too small; subnormal numbers become normal.
  %small = bitcast i32 %moved to float
  %scaled = fmul float %small, 0x46F0000000000000
  %finite = bitcast float %scaled to i32
  %special = or i32 %moved, 2139095040
  %is_special = icmp uge i32 %magnitude, 31744
  %unsigned = select i1 %is_special, i32 %special, i32 %finite
  %high = shl i32 %sign, 16
  %all = or i32 %unsigned, %high
  %result = bitcast i32 %all to float
  ret float %result
}

define half @__truncsfhf2(float %value) {
  %bits = bitcast float %value to i32
  %magnitude = and i32 %bits, 2147483647
  ; A normal number: another bias of the exponent, and half a unit of the last place, less a bit
  ; where the place before is even. A carry goes into the exponent, and to infinity.
  %place = lshr i32 %magnitude, 13
  %odd = and i32 %place, 1
  %biased = add i32 %magnitude, -939520001
  %carried = add i32 %biased, %odd
  %normal = lshr i32 %carried, 13
  ; A subnormal one: the addition of a half rounds it to units of 2**-24.
  %small = bitcast i32 %magnitude to float
  %sum = fadd float %small, 5.000000e-01
  %summed = bitcast float %sum to i32
  %subnormal = sub i32 %summed, 1056964608
  %is_subnormal = icmp ult i32 %magnitude, 947912704
  %finite = select i1 %is_subnormal, i32 %subnormal, i32 %normal
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %special = select i1 %is_nan, i32 32256, i32 31744
  %is_beyond = icmp uge i32 %magnitude, 1199570944
  %unsigned = select i1 %is_beyond, i32 %special, i32 %finite
  %top = lshr i32 %bits, 16
  %sign = and i32 %top, 32768
  %all = or i32 %unsigned, %sign
  %short = trunc i32 %all to i16
  %result = bitcast i16 %short to half
  ret half %result
}
"""


def write_conversion(conversion: FloatConversion) -> str:
    """Return the function of a conversion."""
    if conversion.largest.bit_length() <= _EXACT_BITS[conversion.float_type]:
        return _of_limited_float(conversion)
    return _with_limits(conversion)


def _of_limited_float(conversion: FloatConversion) -> str:
    """Limit the float: it can be both of the integer's limits."""
    kind = conversion.float_type
    smallest, largest = _float(conversion.smallest), _float(conversion.largest)
    if conversion.is_signed:
        lines = [
            f"%is_number = fcmp ord {kind} %x, 0.0",
            f"%number = select i1 %is_number, {kind} %x, {kind} 0.0",
            f"%is_small = fcmp olt {kind} %number, {smallest}",
            f"%least = select i1 %is_small, {kind} {smallest}, {kind} %number",
        ]
    else:
        lines = [  # of NaN too, the comparison is false
            f"%is_positive = fcmp ogt {kind} %x, 0.0",
            f"%least = select i1 %is_positive, {kind} %x, {kind} 0.0",
        ]
    return conversion.function(
        *lines,
        f"%is_large = fcmp ogt {kind} %least, {largest}",
        f"%limited = select i1 %is_large, {kind} {largest}, {kind} %least",
        f"%result = {conversion.operation} {kind} %limited to i{conversion.bits}",
    )


def _with_limits(conversion: FloatConversion) -> str:
    """Replace the integer where the float was beyond a limit, or NaN."""
    kind, integer = conversion.float_type, f"i{conversion.bits}"
    lines = (
        f"%any = {conversion.operation} {kind} %x to {integer}",
        f"%some = freeze {integer} %any",
        f"%is_below = fcmp olt {kind} %x, {_float(conversion.largest + 1)}",
        f"%at_most = select i1 %is_below, {integer} %some, {integer} {conversion.largest}",
    )
    if not conversion.is_signed:
        return conversion.function(
            *lines,
            f"%is_positive = fcmp ogt {kind} %x, 0.0",
            f"%result = select i1 %is_positive, {integer} %at_most, {integer} 0",
        )
    smallest = conversion.smallest
    return conversion.function(
        *lines,
        f"%is_above = fcmp oge {kind} %x, {_float(smallest)}",
        f"%limited = select i1 %is_above, {integer} %at_most, {integer} {smallest}",
        f"%is_number = fcmp ord {kind} %x, 0.0",
        f"%result = select i1 %is_number, {integer} %limited, {integer} 0",
    )


def _float(number: int) -> str:
    """Write a whole number that is exact as a float's constant."""
    return f"0x{struct.unpack('Q', struct.pack('d', float(number)))[0]:016X}"


def add_missing(module: Any, machine: Any) -> None:
    """Add the conversions to a module that needs them.

    The module is optimized already: optimizing would remove what nothing calls yet.
    """
    if not _are_missing(machine) or " half " not in str(module):
        return
    module.link_in(llvm.parse_assembly(_CONVERSIONS))
    for name in CONVERSIONS:
        module.get_function(name).linkage = "internal"


@cache
def _are_missing(machine: Any) -> bool:
    """Return whether code for a processor calls functions for the conversions."""
    assembly = machine.emit_assembly(llvm.parse_assembly(_PROBE))
    return any(name in assembly for name in CONVERSIONS)
