"""Barriers, votes at barriers, and fences.

References
----------
PTX ISA, sections "Parallel Synchronization and Communication Instructions: bar, barrier",
"bar.warp.sync" and "membar, fence".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter

__all__ = ["EMITTERS", "call_nvvm"]

_void = ir.VoidType()
_i1 = ir.IntType(1)
_i32 = ir.IntType(32)


def call_nvvm(builder: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
    """Call one of LLVM\'s functions of NVPTX, whose name goes on after ``llvm.nvvm.``."""
    function_type = ir.FunctionType(result, [a.type for a in args])
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.nvvm.{name}")
    return builder.call(function, args)


def _barrier(call: Call) -> ir.Value:
    call_nvvm(call.builder, "barrier.cta.sync.aligned.all", _void, [_i32(0)])
    return call.context.get_dummy_value()


def _vote(operation: str, call: Call) -> ir.Value:
    predicate = call.context.is_true(call.builder, call.signature.args[0], call.args[0])
    result = _i32 if operation == "popc" else _i1
    value = call_nvvm(
        call.builder, f"barrier.cta.red.{operation}.aligned.all", result, [_i32(0), predicate]
    )
    return value if operation == "popc" else call.builder.zext(value, _i32)


def _warp(call: Call) -> ir.Value:
    call_nvvm(call.builder, "bar.warp.sync", _void, [call.args[0]])
    return call.context.get_dummy_value()


def _fence(scope: str, call: Call) -> ir.Value:
    call_nvvm(call.builder, f"membar.{scope}", _void, [])
    return call.context.get_dummy_value()


EMITTERS: dict[str, Emitter] = {
    "syncthreads": _barrier,
    "syncthreads_count": partial(_vote, "popc"),
    "syncthreads_and": partial(_vote, "and"),
    "syncthreads_or": partial(_vote, "or"),
    "syncwarp": _warp,
    "threadfence": partial(_fence, "gl"),
    "threadfence_block": partial(_fence, "cta"),
    "threadfence_system": partial(_fence, "sys"),
}
