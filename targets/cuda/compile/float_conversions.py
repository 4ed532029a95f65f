"""Conversions of floats to integers on CUDA, where ``cvt.rzi`` has a value for every float.

It saturates at the limits of 32 and 64 bits; smaller integers are limited further. Of NaN it gives
0 from float32 to 32 bits; elsewhere NaN is replaced before.

References
----------
PTX ISA, instruction "cvt": conversions from float to integer, and their results of NaN.
"""

from __future__ import annotations

from kerneldsl.lowering.float_conversions import FloatConversion

__all__ = ["write_conversion"]


def write_conversion(conversion: FloatConversion) -> str:
    """Return the function of a conversion, with what it declares."""
    kind, wide = conversion.float_type, max(conversion.bits, 32)
    name = f"llvm.nvvm.{'f' if kind == 'float' else 'd'}2{_integer(conversion, wide)}.rz"
    declarations = [f"declare i{wide} @{name}({kind})"]
    number, lines = "%x", []
    if kind == "double" or wide == 64:
        number = "%number"
        lines = [
            f"%is_number = fcmp ord {kind} %x, 0.0",
            f"%number = select i1 %is_number, {kind} %x, {kind} 0.0",
        ]
    if wide == conversion.bits:
        lines.append(f"%result = call i{wide} @{name}({kind} {number})")
    else:
        sign = "s" if conversion.is_signed else "u"
        limits = {"min": conversion.largest, "max": conversion.smallest}
        value = "%wide"
        lines.append(f"{value} = call i32 @{name}({kind} {number})")
        for function, limit in limits.items():
            if limit == 0:
                continue
            declarations.append(f"declare i32 @llvm.{sign}{function}.i32(i32, i32)")
            lines.append(
                f"%{function} = call i32 @llvm.{sign}{function}.i32(i32 {value}, i32 {limit})"
            )
            value = f"%{function}"
        lines.append(f"%result = trunc i32 {value} to i{conversion.bits}")
    return "\n".join([*declarations, conversion.function(*lines)])


def _integer(conversion: FloatConversion, bits: int) -> str:
    """Return LLVM's word for an integer of 32 or 64 bits."""
    return ("" if conversion.is_signed else "u") + ("i" if bits == 32 else "ll")
