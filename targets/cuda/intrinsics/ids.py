"""Indices and sizes: special registers with their ranges, widened to signed 64 bits.

References
----------
PTX ISA, section "Special Registers"; CUDA C++ Programming Guide, table "Technical Specifications
per Compute Capability" for the ranges.
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter

__all__ = ["EMITTERS", "read_register"]

_i32 = ir.IntType(32)
_i64 = ir.IntType(64)

#: Register to the half-open range of its values.
_RANGES = {
    "tid.x": (0, 1024),
    "tid.y": (0, 1024),
    "tid.z": (0, 64),
    "ntid.x": (1, 1025),
    "ntid.y": (1, 1025),
    "ntid.z": (1, 65),
    "ctaid.x": (0, 0x7FFFFFFF),
    "ctaid.y": (0, 0xFFFF),
    "ctaid.z": (0, 0xFFFF),
    "nctaid.x": (1, -0x80000000),
    "nctaid.y": (1, 0x10000),
    "nctaid.z": (1, 0x10000),
    "laneid": (0, 32),
}
_GROUPS = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}


def read_register(builder: ir.IRBuilder, register: str) -> ir.Value:
    """Read a special register as a signed 64-bit integer with a known range.

    A register has a name such as ``"tid.x"``; the result is an i64 that is not negative.
    """
    module = builder.module
    function = cgutils.get_or_insert_function(
        module, ir.FunctionType(_i32, []), f"llvm.nvvm.read.ptx.sreg.{register}"
    )
    value = builder.call(function, [])
    low, high = _RANGES[register]
    value.set_metadata("range", module.add_metadata([_i32(low), _i32(high)]))
    return builder.zext(value, _i64)


def _register(register: str, call: Call) -> ir.Value:
    return read_register(call.builder, register)


def _warpsize(call: Call) -> ir.Value:
    return ir.Constant(_i64, 32)


EMITTERS: dict[str, Emitter] = {
    f"{group}.{axis}": partial(_register, f"{register}.{axis}")
    for group, register in _GROUPS.items()
    for axis in "xyz"
}
EMITTERS |= {
    "laneid": partial(_register, "laneid"),
    "warpsize": _warpsize,
}
