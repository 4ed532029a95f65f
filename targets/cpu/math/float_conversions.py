"""Conversions of floats to integers on processors: limits by comparisons, which LLVM vectorizes.

LLVM's ``llvm.fptosi.sat`` has the same values, but is one element at a time for its vectorizer.
"""

from __future__ import annotations

import struct

from kerneldsl.lowering.float_conversions import FloatConversion

__all__ = ["write_conversion"]

#: Bits of a float's whole numbers that are all exact.
_EXACT_BITS = {"float": 24, "double": 53}


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
