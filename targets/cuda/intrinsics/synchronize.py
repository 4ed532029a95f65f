"""Barriers, votes at barriers, fences, and accesses by which threads wait for others.

References
----------
PTX ISA, sections "Parallel Synchronization and Communication Instructions: bar, barrier",
"bar.warp.sync" and "membar, fence".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from llvmlite import ir
from numba.core import cgutils

from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.faults import FAULT_FIELDS
from targets.cuda.compile.calling import fault_record

__all__ = ["DEVICE_ORDER", "EMITTERS", "by_words", "call_nvvm", "has_failed", "shuffle"]

_void = ir.VoidType()
_i1 = ir.IntType(1)
_i32 = ir.IntType(32)


# Shuffles of values of 32 and 64 bits.
#
# See PTX ISA, section "Data Movement and Conversion Instructions: shfl.sync".


def shuffle(
    builder: ir.IRBuilder, mode: str, mask: ir.Value, value: ir.Value, lane: ir.Value
) -> ir.Value:
    """Exchange a value by its registers of 32 bits.

    `mode` is "idx", "up", "down" or "bfly".
    """
    # The last lane whose index is in range; segments of the whole warp.
    clamp = _I32(0x00 if mode == "up" else 0x1F)

    def exchange(part: ir.Value) -> ir.Value:
        return call_nvvm(builder, f"shfl.sync.{mode}.i32", _I32, [mask, part, lane, clamp])

    return by_words(builder, value, exchange)


def by_words(
    builder: ir.IRBuilder, value: ir.Value, change: Callable[[ir.Value], ir.Value]
) -> ir.Value:
    """Change a value 32 bits at a time."""
    kind = value.type
    if isinstance(kind, ir.LiteralStructType | ir.ArrayType):
        for position in range(len(kind.elements)):
            part = by_words(builder, builder.extract_value(value, position), change)
            value = builder.insert_value(value, part, position)
        return value
    if isinstance(kind, ir.HalfType):
        return builder.bitcast(by_words(builder, builder.bitcast(value, _I16), change), kind)
    if isinstance(kind, ir.IntType) and kind.width < 32:
        return builder.trunc(change(builder.zext(value, _I32)), kind)
    if kind in (_I32, ir.FloatType()):
        return builder.bitcast(change(builder.bitcast(value, _I32)), kind)
    bits = builder.bitcast(value, _I64)
    low = change(builder.trunc(bits, _I32))
    high = change(builder.trunc(builder.lshr(bits, _I64(32)), _I32))
    whole = builder.or_(builder.zext(low, _I64), builder.shl(builder.zext(high, _I64), _I64(32)))
    return builder.bitcast(whole, kind)


_I1, _I16, _I32, _I64 = map(ir.IntType, (1, 16, 32, 64))
#: Of accesses that threads of all blocks may make at a time, and that order no other memory.
DEVICE_ORDER = 'syncscope("device") monotonic'
_STATE_OFFSET = next(offset for name, _, offset in FAULT_FIELDS if name == "state")


def call_nvvm(builder: ir.IRBuilder, name: str, result: ir.Type, args: list[ir.Value]) -> ir.Value:
    """Call one of LLVM\'s functions of NVPTX, whose name goes on after ``llvm.nvvm.``."""
    function_type = ir.FunctionType(result, [a.type for a in args])
    function = cgutils.get_or_insert_function(builder.module, function_type, f"llvm.nvvm.{name}")
    return builder.call(function, args)


def _barrier(call: Call) -> None:
    call_nvvm(call.builder, "barrier.cta.sync.aligned.all", _void, [_i32(0)])


def _vote(operation: str, call: Call) -> ir.Value:
    predicate = call.context.is_true(call.builder, call.signature.args[0], call.args[0])
    result = _i32 if operation == "popc" else _i1
    value = call_nvvm(
        call.builder, f"barrier.cta.red.{operation}.aligned.all", result, [_i32(0), predicate]
    )
    return value if operation == "popc" else call.builder.zext(value, _i32)


def _warp(call: Call) -> None:
    call_nvvm(call.builder, "bar.warp.sync", _void, [call.args[0]])


def _fence(scope: str, call: Call) -> None:
    call_nvvm(call.builder, f"membar.{scope}", _void, [])


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


def has_failed(builder: ir.IRBuilder) -> ir.Value:
    """Return whether a thread of the launch has failed, for which others may wait permanently.

    Only in debug mode is there a record that says so.
    """
    record = fault_record(builder)
    result = cgutils.alloca_once_value(builder, _I1(0))
    with builder.if_then(builder.icmp_unsigned("!=", record, record.type(None))):
        place = builder.gep(record, [_I64(_STATE_OFFSET)])
        state = builder.load_atomic(builder.bitcast(place, _I32.as_pointer()), DEVICE_ORDER, 4)
        builder.store(builder.icmp_unsigned("!=", state, _I32(0)), result)
    return builder.load(result)
