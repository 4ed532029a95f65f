"""The GPU as a separate target of Numba, made at the first compilation."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils

from kerneldsl.frontend.captured import ConstantArray
from kerneldsl.lowering.captured_arrays import symbol_of
from kerneldsl.lowering.numba_internals.arrays import array_value, contiguous_strides
from kerneldsl.lowering.numba_internals.device_code import DeviceCodegen
from kerneldsl.lowering.numba_internals.device_target import Device, DeviceDescriptor
from kerneldsl.lowering.numba_internals.llvm import BFLOAT
from targets.cuda.intrinsics import printing

__all__ = ["TARGET_NAME", "TRIPLE", "descriptor", "initialize_nvptx"]

#: The name in Numba's registry of targets.
TARGET_NAME = "kerneldsl_cuda"


@cache
def descriptor() -> DeviceDescriptor:
    """Return the target's contexts; the caller holds Numba's compiler lock."""
    machine = initialize_nvptx().create_target_machine(cpu="sm_75", opt=3)
    codegen = DeviceCodegen(TRIPLE, str(machine.target_data))
    device = Device(
        TARGET_NAME,
        codegen,
        printing.registry,
        _constant_string,
        _constant_array,
        _store_unaligned,
    )
    return DeviceDescriptor(device)


# Constants as memory of a module: captured arrays, which are read through ``ld.global.nc``. Those
# that a kernel declares to be constant are in constant memory while there is room.
#
# The code only reserves memory for large ones (`kerneldsl.lowering.captured_arrays`).

_i64 = ir.IntType(64)
_i8 = ir.IntType(8)


def _constant_array(context: Any, builder: ir.IRBuilder, kind: Any, values: Any) -> ir.Value:
    """Reify a read-only NumPy array as constant memory of the module."""
    order = "F" if kind.layout == "F" else "C"
    symbol = symbol_of(values)
    if symbol is not None:
        data = _room(builder.module, symbol, values.nbytes)
    else:
        content = cgutils.make_bytearray(values.tobytes(order=order))
        kind_of_memory = _DECLARED if isinstance(values, ConstantArray) else "constant_array"
        data = _constant(builder.module, kind_of_memory, content)
    shape = [ir.Constant(_i64, extent) for extent in values.shape]
    itemsize = ir.Constant(_i64, values.itemsize)
    strides = contiguous_strides(builder, shape, itemsize, order)
    return array_value(context, builder, kind, data, shape, strides=strides)


class _Filled(ir.GlobalVariable):  # type: ignore[misc]
    """Constant memory that LLVM knows no contents of."""

    def descr(self, buf: list[str]) -> None:
        kind = f"linkonce_odr unnamed_addr addrspace({self.addrspace})"
        room = f"externally_initialized constant {self.value_type} zeroinitializer"
        buf.append(f"{kind} {room}, align {self.align}\n")


def _room(module: ir.Module, name: str, nbytes: int) -> ir.Value:
    """Return the address of constant memory that is filled when the module is loaded."""
    memory = module.globals.get(name)
    if memory is None:
        memory = _Filled(module, ir.ArrayType(_i8, nbytes), name, addrspace=1)
        memory.align = 16
    return _generic(memory)


def _constant_string(module: ir.Module, text: str) -> ir.Value:
    """Put a text into a module, with a zero at its end; returns its generic address."""
    return _constant(module, "text", cgutils.make_bytearray(text.encode() + b"\0"))


#: The bytes of constant memory that a module may have, and where LLVM has it.
_CONSTANT_BYTES, _CONSTANT_SPACE = 1 << 16, 4
_DECLARED = "declared_array"


def _constant(module: ir.Module, kind: str, content: ir.Constant) -> ir.Value:
    """Return the address of constant memory, aligned for every dtype, one for equal contents."""
    digest = hashlib.sha256(bytes(content.constant)).hexdigest()[:32]
    name = f"{kind}_{digest}"
    memory = module.globals.get(name)
    if memory is None:
        others = [g for g in module.globals.values() if g.type.addrspace == _CONSTANT_SPACE]
        used = sum(-(-each.value_type.count // 16) * 16 for each in others)
        is_there = kind == _DECLARED and used + content.type.count <= _CONSTANT_BYTES
        space = _CONSTANT_SPACE if is_there else 1
        memory = cgutils.add_global_variable(module, content.type, name, addrspace=space)
        memory.linkage = "internal"
        memory.global_constant = True
        memory.initializer = content
        memory.align = 16
        memory.unnamed_addr = True  # equal constants of other modules may become one with it
    return _generic(memory)


def _generic(memory: Any) -> ir.Value:
    generic = _i8.as_pointer()
    cast = f"addrspacecast ({memory.type} {memory.get_reference()} to {generic})"
    return ir.FormattedConstant(generic, cast)


# Stores of floating-point numbers to places that are not aligned: byte by byte.
#
# LLVM writes such a store as ``st.b8`` of the register itself for the lowest byte, and of its
# shifted values for the others. On an H200 with the driver 580.159.04 the lowest byte of a float
# that an instruction has just computed was then its integer part, as if the driver's compiler
# converted it. So the byte is extracted by an integer instruction that LLVM does not look into.

_I8, _I16, _I32, _I64 = ir.IntType(8), ir.IntType(16), ir.IntType(32), ir.IntType(64)
#: Types of the bits of values that are stored byte by byte; 16 of them may be a bfloat16.
_BITS = {
    ir.HalfType(): _I16,
    BFLOAT: _I16,
    _I16: _I16,
    ir.FloatType(): _I32,
    ir.DoubleType(): _I64,
}


def _store_unaligned(builder: ir.IRBuilder, value: ir.Value, pointer: ir.Value) -> None:
    """Store a number, a complex one too, at any address.

    References
    ----------
    PTX ISA, section "Integer Arithmetic Instructions: bfe".
    """
    if isinstance(value.type, ir.LiteralStructType):
        for number in range(len(value.type.elements)):
            part = builder.gep(pointer, [_I32(0), _I32(number)], inbounds=True)
            _store_unaligned(builder, builder.extract_value(value, number), part)
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


# LLVM's back end for PTX.

TRIPLE = "nvptx64-nvidia-cuda"


@cache
def initialize_nvptx() -> llvm.Target:
    """Make the back end usable, once, and return it."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE)
