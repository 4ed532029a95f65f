"""Atomic operations on array elements: by the hardware if it has them, else by a loop of LLVM's.

LLVM's ``atomicrmw`` becomes ``atom`` for what PTX has and a compare-and-swap loop for the rest
(floating-point minimum and maximum, 64-bit wrapping counters). The scope is the device, as
``numba.cuda``'s and CUDA C++'s atomics have it, the order relaxed. Loads and stores say both; what
orders other accesses differs by architecture.

References
----------
PTX ISA, sections "atom", "ld" and "st"; LLVM Language Reference, "atomicrmw".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba import types

from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.numba_internals.arrays import element_pointer
from kerneldsl.lowering.numba_internals.llvm import BFLOAT
from kerneldsl.lowering.vectors import VectorType
from targets.cuda.intrinsics.atomic_accesses import ordered_access, vector_add
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.memory import DEVICE_ORDER

__all__ = ["EMITTERS"]

#: Operation to LLVM's, for signed, unsigned and floating-point elements.
_OPERATIONS = {
    "add": ("add", "add", "fadd"),
    "sub": ("sub", "sub", "fsub"),
    "max": ("max", "umax", "fmax"),
    "min": ("min", "umin", "fmin"),
    "exch": ("xchg", "xchg", "xchg"),
    "and_": ("and", "and", ""),
    "or_": ("or", "or", ""),
    "xor": ("xor", "xor", ""),
    "inc": ("", "uinc_wrap", ""),
    "dec": ("", "udec_wrap", ""),
}


def _read_modify_write(operation: str, call: Call) -> ir.Value:
    element = call.signature.return_type
    if isinstance(element, VectorType):
        return _add_to_vector(call, element)
    column = 2 if isinstance(element, types.Float) else 0 if element.signed else 1
    name = _OPERATIONS[operation][column]
    pointer = element_pointer(call)
    value = call.args[2]
    if name == "fsub":  # there is no such instruction, and x - v is x + (-v) exactly
        name, value = "fadd", call.builder.fneg(value)
    model = call.context.data_model_manager[element]
    stored = model.as_data(call.builder, value)
    kind = stored.type
    if isinstance(element, types.Float) and isinstance(kind, ir.IntType):  # bfloat16, as bits
        pointer = call.builder.bitcast(pointer, BFLOAT.as_pointer())
        stored = call.builder.bitcast(stored, BFLOAT)
    old = call.builder.atomic_rmw(name, pointer, stored, DEVICE_ORDER)
    return model.from_data(call.builder, call.builder.bitcast(old, kind))


def _add_to_vector(call: Call, element: VectorType) -> ir.Value:
    builder, count = call.builder, len(element.fields)
    value = call.args[2]
    parts = [builder.extract_value(value, number) for number in range(count)]
    pointer = builder.bitcast(element_pointer(call), parts[0].type.as_pointer())
    return call_by_architecture(builder, vector_add(count), value.type, [pointer, *parts])


def _compare_and_swap(call: Call) -> ir.Value:
    element = call.signature.return_type
    pointer = element_pointer(call)
    model = call.context.data_model_manager[element]
    expected, value = (model.as_data(call.builder, each) for each in call.args[2:])
    stored = value.type
    if isinstance(element, types.Float):
        bits = ir.IntType(element.bitwidth)
        pointer = call.builder.bitcast(pointer, bits.as_pointer())
        expected, value = call.builder.bitcast(expected, bits), call.builder.bitcast(value, bits)
    pair = call.builder.cmpxchg(pointer, expected, value, DEVICE_ORDER, "monotonic")
    old = call.builder.extract_value(pair, 0)
    return model.from_data(call.builder, call.builder.bitcast(old, stored))


def _load(call: Call) -> ir.Value:
    builder, element = call.builder, call.signature.return_type
    model, bits = call.context.data_model_manager[element], ir.IntType(element.bitwidth)
    pointer = builder.bitcast(element_pointer(call), bits.as_pointer())
    _say_written(builder, pointer)
    name = ordered_access("load", call.static["order"], call.static["scope"], bits)
    found = call_by_architecture(builder, name, bits, [pointer])
    return model.from_data(builder, builder.bitcast(found, model.get_data_type()))


def _say_written(builder: ir.IRBuilder, pointer: ir.Value) -> None:
    """Keep LLVM from taking the array for one that is only read; no instruction is written.

    It would choose the load of the read-only cache, which is not atomic, and ends the process.
    """
    nothing = ir.FunctionType(ir.VoidType(), [pointer.type])
    builder.asm(nothing, "", "l,~{memory}", [pointer], side_effect=True)


def _store(call: Call) -> None:
    builder, element = call.builder, call.signature.args[0].dtype
    bits = ir.IntType(element.bitwidth)
    stored = call.context.data_model_manager[element].as_data(builder, call.args[2])
    pointer = builder.bitcast(element_pointer(call), bits.as_pointer())
    name = ordered_access("store", call.static["order"], call.static["scope"], bits)
    arguments = [pointer, builder.bitcast(stored, bits)]
    call_by_architecture(builder, name, ir.VoidType(), arguments)


EMITTERS: dict[str, Emitter] = {
    f"atomic.{operation}": partial(_read_modify_write, operation) for operation in _OPERATIONS
}
EMITTERS["atomic.cas"] = _compare_and_swap
EMITTERS["atomic.load"] = _load
EMITTERS["atomic.store"] = _store
