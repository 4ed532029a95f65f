"""Shared and local arrays."""

from __future__ import annotations

from math import prod

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.numba_internals.arrays import array_value

__all__ = ["DYNAMIC_SHARED", "EMITTERS", "SHARED_SPACE"]

#: LLVM's number for shared memory.
SHARED_SPACE = 3

#: The one symbol behind every ``shared.array(0, dtype)``; the linker merges its declarations.
DYNAMIC_SHARED = "kd_dynamic_shared"

_i8 = ir.IntType(8)
_i64 = ir.IntType(64)
#: Enough for every dtype, and for 128-bit accesses.
_ALIGNMENT = 16


def _shared(call: Call) -> ir.Value:
    shape = call.static["shape"]
    element = call.context.get_data_type(call.signature.return_type.dtype)
    if tuple(shape) == (0,):
        return _dynamic_shared(call, element)
    itemsize = call.context.get_abi_sizeof(element)
    # An atomic operation on 8 or 16 bits reads and writes the word around them.
    content = ir.ArrayType(element, -(-prod(shape) * itemsize // 4) * 4 // itemsize)
    module = call.builder.module
    memory = cgutils.add_global_variable(
        module, content, module.get_unique_name("shared"), addrspace=SHARED_SPACE
    )
    memory.linkage = "internal"
    memory.initializer = ir.Constant(content, ir.Undefined)
    memory.align = _ALIGNMENT
    return _array(call, _generic(call.builder, memory), [_i64(extent) for extent in shape])


def _array(call: Call, memory: ir.Value, shape: list[ir.Value]) -> ir.Value:
    return array_value(call.context, call.builder, call.signature.return_type, memory, shape)


def _dynamic_shared(call: Call, element: ir.Type) -> ir.Value:
    module = call.builder.module
    memory = module.globals.get(DYNAMIC_SHARED)
    if memory is None:
        memory = cgutils.add_global_variable(
            module, ir.ArrayType(_i8, 0), DYNAMIC_SHARED, addrspace=SHARED_SPACE
        )
        memory.linkage = "external"
        memory.align = _ALIGNMENT
    nbytes = call.builder.zext(_read_dynamic_size(call.builder), _i64)
    itemsize = _i64(call.context.get_abi_sizeof(element))
    return _array(call, _generic(call.builder, memory), [call.builder.udiv(nbytes, itemsize)])


def _read_dynamic_size(builder: ir.IRBuilder) -> ir.Value:
    # LLVM has no intrinsic for this register.
    kind = ir.FunctionType(ir.IntType(32), [])
    return builder.asm(kind, "mov.u32 $0, %dynamic_smem_size;", "=r", [], side_effect=False)


def _generic(builder: ir.IRBuilder, memory: ir.GlobalVariable) -> ir.Value:
    return builder.addrspacecast(memory, memory.type.pointee.as_pointer())


def _local(call: Call) -> ir.Value:
    shape = call.static["shape"]
    content = ir.ArrayType(
        call.context.get_data_type(call.signature.return_type.dtype), prod(shape)
    )
    # Numba's own helper would fill it with zeros, element by element.
    with call.builder.goto_entry_block():
        memory = call.builder.alloca(content, name="local")
    memory.align = _ALIGNMENT
    return _array(call, memory, [_i64(extent) for extent in shape])


EMITTERS: dict[str, Emitter] = {"shared.array": _shared, "local.array": _local}
