"""Shared and local arrays."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from llvmlite import ir
from numba.core import cgutils

from targets.cuda.intrinsics.bound import Emitter
from targets.cuda.numba_glue.arrays import array_value

__all__ = ["DYNAMIC_SHARED", "EMITTERS", "SHARED_SPACE"]

#: LLVM's number for shared memory.
SHARED_SPACE = 3

#: The one symbol behind every ``shared.array(0, dtype)``; the linker merges its declarations.
DYNAMIC_SHARED = "dynamic_shared"

_i8 = ir.IntType(8)
_i64 = ir.IntType(64)
#: Enough for every dtype, and for 128-bit accesses.
_ALIGNMENT = 16


def _shared(
    context: Any,
    builder: ir.IRBuilder,
    sig: Any,
    args: tuple[ir.Value, ...],
    static: Mapping[str, Any],
) -> ir.Value:
    kind = sig.return_type
    shape = static["shape"]
    element = context.get_data_type(kind.dtype)
    if tuple(shape) == (0,):
        return _dynamic_shared(context, builder, kind, element)
    content = ir.ArrayType(element, prod(shape))
    module = builder.module
    memory = cgutils.add_global_variable(
        module, content, module.get_unique_name("shared"), addrspace=SHARED_SPACE
    )
    memory.linkage = "internal"
    memory.initializer = ir.Constant(content, ir.Undefined)
    memory.align = _ALIGNMENT
    return array_value(
        context, builder, kind, _generic(builder, memory), [_i64(extent) for extent in shape]
    )


def _dynamic_shared(context: Any, builder: ir.IRBuilder, kind: Any, element: ir.Type) -> ir.Value:
    module = builder.module
    memory = module.globals.get(DYNAMIC_SHARED)
    if memory is None:
        memory = cgutils.add_global_variable(
            module, ir.ArrayType(_i8, 0), DYNAMIC_SHARED, addrspace=SHARED_SPACE
        )
        memory.linkage = "external"
        memory.align = _ALIGNMENT
    nbytes = builder.zext(_read_dynamic_size(builder), _i64)
    itemsize = _i64(context.get_abi_sizeof(element))
    return array_value(
        context, builder, kind, _generic(builder, memory), [builder.udiv(nbytes, itemsize)]
    )


def _read_dynamic_size(builder: ir.IRBuilder) -> ir.Value:
    # LLVM has no intrinsic for this register.
    kind = ir.FunctionType(ir.IntType(32), [])
    return builder.asm(kind, "mov.u32 $0, %dynamic_smem_size;", "=r", [], side_effect=False)


def _generic(builder: ir.IRBuilder, memory: ir.GlobalVariable) -> ir.Value:
    return builder.addrspacecast(memory, memory.type.pointee.as_pointer())


def _local(
    context: Any,
    builder: ir.IRBuilder,
    sig: Any,
    args: tuple[ir.Value, ...],
    static: Mapping[str, Any],
) -> ir.Value:
    kind = sig.return_type
    shape = static["shape"]
    content = ir.ArrayType(context.get_data_type(kind.dtype), prod(shape))
    memory = cgutils.alloca_once(builder, content, name="local")
    memory.align = _ALIGNMENT
    return array_value(context, builder, kind, memory, [_i64(extent) for extent in shape])


EMITTERS: dict[str, Emitter] = {"shared.array": _shared, "local.array": _local}
