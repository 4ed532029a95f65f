"""Additions to the numbers of a vector: by one instruction if there is one, else one by one.

References
----------
PTX ISA, section "atom", of vectors from PTX ISA 8.1 and compute capability 9.0 on; LLVM, "User
Guide for NVPTX Back-end", "llvm.nvvm.isspacep.*".
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import join
from targets.cuda.intrinsics.ordered_accesses import DEVICE_RELAXED
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["add_kind", "add_parts", "add_vector", "vector_add"]

_I1, _I8, _I64 = (ir.IntType(width) for width in (1, 8, 64))
_FLOAT = ir.FloatType()
_GLOBAL_SPACE = 1


def vector_add(count: int) -> str:
    """Return the name of the function that adds to so many float32."""
    return f"add_float32x{count}"


def add_kind(count: int) -> ir.FunctionType:
    """Return its type: the address of the first number and what is added, to the old numbers."""
    result = ir.LiteralStructType([_FLOAT] * count)
    return ir.FunctionType(result, (_FLOAT.as_pointer(), *[_FLOAT] * count))


def add_parts(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Add to one number after the other."""
    pointer, *values = args
    old = [
        builder.atomic_rmw("fadd", builder.gep(pointer, [_I64(number)]), value, DEVICE_RELAXED)
        for number, value in enumerate(values)
    ]
    return cgutils.pack_struct(builder, old)


def add_vector(builder: ir.IRBuilder, args: Sequence[ir.Value]) -> ir.Value:
    """Add by one instruction, of global memory at a multiple of the vector's size."""
    pointer, *values = args
    count = len(values)
    address = builder.bitcast(pointer, _I8.as_pointer())
    is_global = call_nvvm(builder, "isspacep.global", _I1, [address])
    low = builder.and_(builder.ptrtoint(pointer, _I64), _I64(4 * count - 1))
    is_aligned = builder.icmp_unsigned("==", low, _I64(0))
    with builder.if_else(builder.and_(is_global, is_aligned)) as (whole, apart):
        with whole:
            one = _instruction(builder, pointer, values)
            from_one = builder.block
        with apart:
            other = add_parts(builder, args)
            from_other = builder.block
    return join(builder, (one, from_one), (other, from_other))


def _instruction(builder: ir.IRBuilder, pointer: ir.Value, values: Sequence[ir.Value]) -> ir.Value:
    count = len(values)
    at = builder.addrspacecast(pointer, ir.PointerType(_FLOAT, _GLOBAL_SPACE))
    old, new = (
        ", ".join(f"${first + number}" for number in range(count)) for first in (0, count + 1)
    )
    text = f"atom.relaxed.gpu.global.add.v{count}.f32 {{{old}}}, [${count}], {{{new}}};"
    constraint = ",".join([*["=f"] * count, "l", *["f"] * count, "~{memory}"])
    result = ir.LiteralStructType([_FLOAT] * count)
    kind = ir.FunctionType(result, [at.type, *[_FLOAT] * count])
    return builder.asm(kind, text, constraint, [at, *values], side_effect=True)
