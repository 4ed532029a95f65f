"""Stores of floating-point numbers to places that are not aligned: byte by byte.

LLVM writes such a store as ``st.b8`` of the register itself for the lowest byte, and of its shifted
values for the others. On an H200 with the driver 580.159.04 the lowest byte of a float that an
instruction has just computed was then its integer part, as if the driver's compiler converted it.
So the byte is extracted by an integer instruction that LLVM does not look into.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.lowering.numba_internals.llvm import BFLOAT

__all__ = ["store_unaligned"]

_I8, _I16, _I32, _I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
#: Bits of what is stored byte by byte; 16 of them may be a bfloat16.
_BITS = {
    ir.HalfType(): _I16,
    BFLOAT: _I16,
    _I16: _I16,
    ir.FloatType(): _I32,
    ir.DoubleType(): _I64,
}


def store_unaligned(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
    """Store a number, a complex one too, at any address.

    References
    ----------
    PTX ISA, section "Integer Arithmetic Instructions: bfe".
    """
    if isinstance(value.type, ir.LiteralStructType):
        for number in range(len(value.type.elements)):
            part = builder.gep(pointer, [_I32(0), _I32(number)], inbounds=True)
            store_unaligned(builder, builder.extract_value(value, number), part)
        return
    bits_type = _BITS.get(value.type)
    if bits_type is None:
        builder.store(value, pointer, align=1)
        return
    bits = builder.bitcast(value, bits_type)
    place = builder.bitcast(pointer, _I8.as_pointer(pointer.type.addrspace))
    for number in range(bits_type.width // 8):
        if number == 0:
            word = builder.zext(bits, _I32) if bits_type is _I16 else bits
            word = builder.trunc(bits, _I32) if bits_type is _I64 else word
            extract = ir.InlineAsm(
                ir.FunctionType(_I32, [_I32]), "bfe.u32 $0, $1, 0, 8;", "=r,r", side_effect=False
            )
            byte = builder.call(extract, [word])
        else:
            byte = builder.lshr(bits, bits_type(8 * number))
        at = builder.gep(place, [_I32(number)], inbounds=True)
        builder.store(builder.trunc(byte, _I8), at, align=1)
