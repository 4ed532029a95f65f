"""Shared and local arrays, and the order of accesses that threads share."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from llvmlite import ir
from numba.core import cgutils

__all__ = [
    "DEVICE_ORDER",
    "DYNAMIC_SHARED",
    "SHARED_SPACE",
    "dynamic_shared",
    "load_pair",
    "local_memory",
    "static_shared",
    "store_pair",
]

#: Scope and ordering of accesses that threads of all blocks may make concurrently, and that order
#: no other memory. They are one text, because llvmlite writes the ordering as it is given.
DEVICE_ORDER = 'syncscope("device") monotonic'
#: LLVM's number for shared memory.
SHARED_SPACE = 3

#: The one symbol behind every ``shared.array(0, dtype)``; the linker merges its declarations.
DYNAMIC_SHARED = "kd_dynamic_shared"

_i8 = ir.IntType(8)
_i32, _i64 = ir.IntType(32), ir.IntType(64)
#: Enough for every dtype, and for 128-bit accesses.
_ALIGNMENT = 16


def static_shared(
    context: Any, builder: ir.IRBuilder, element: ir.Type, shape: Sequence[int]
) -> ir.GlobalVariable:
    """Return new shared memory for an array of elements of a type."""
    itemsize = context.get_abi_sizeof(element)
    # An atomic operation on 8 or 16 bits reads and writes the word around them.
    content = ir.ArrayType(element, -(-prod(shape) * itemsize // 4) * 4 // itemsize)
    module = builder.module
    memory = cgutils.add_global_variable(
        module, content, module.get_unique_name("shared"), addrspace=SHARED_SPACE
    )
    memory.linkage = "internal"
    memory.initializer = ir.Constant(content, ir.Undefined)
    memory.align = _ALIGNMENT
    return memory


def dynamic_shared(
    context: Any, builder: ir.IRBuilder, element: ir.Type
) -> tuple[ir.GlobalVariable, ir.Value]:
    """Return dynamic shared memory, and how many elements of a type it has."""
    module = builder.module
    memory = module.globals.get(DYNAMIC_SHARED)
    if memory is None:
        memory = cgutils.add_global_variable(
            module, ir.ArrayType(_i8, 0), DYNAMIC_SHARED, addrspace=SHARED_SPACE
        )
        memory.linkage = "external"
        memory.align = _ALIGNMENT
    nbytes = builder.zext(_read_dynamic_size(builder), _i64)
    return memory, builder.udiv(nbytes, _i64(context.get_abi_sizeof(element)))


def local_memory(builder: ir.IRBuilder, element: ir.Type, shape: Sequence[int]) -> Any:
    """Return memory of the thread for an array of elements of a type."""
    # Numba's own helper would fill it with zeros, element by element.
    with builder.goto_entry_block():
        memory = builder.alloca(ir.ArrayType(element, prod(shape)), name="local")
    memory.align = _ALIGNMENT
    return memory


def load_pair(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    """Load a complex number at once; its address is a multiple of its size."""
    pair = ir.Constant(place.type.pointee, ir.Undefined)
    found = builder.load(_as_vector(builder, place))
    for number in range(2):
        pair = builder.insert_value(pair, builder.extract_element(found, _i32(number)), number)
    return pair


def store_pair(builder: ir.IRBuilder, place: ir.Value, pair: ir.Value) -> None:
    """Store a complex number at once; its address is a multiple of its size."""
    memory = _as_vector(builder, place)
    vector = ir.Constant(memory.type.pointee, ir.Undefined)
    for number in range(2):
        part = builder.extract_value(pair, number)
        vector = builder.insert_element(vector, part, _i32(number))
    builder.store(vector, memory)


def _as_vector(builder: ir.IRBuilder, place: ir.Value) -> ir.Value:
    vector = ir.VectorType(place.type.pointee.elements[0], 2)
    return builder.bitcast(place, vector.as_pointer(place.type.addrspace))


def _read_dynamic_size(builder: ir.IRBuilder) -> ir.Value:
    # LLVM has no intrinsic for this register.
    kind = ir.FunctionType(_i32, [])
    return builder.asm(kind, "mov.u32 $0, %dynamic_smem_size;", "=r", [], side_effect=False)
