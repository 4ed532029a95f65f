"""Exchanges between the lanes of a warp.

References
----------
PTX ISA, sections "Data Movement and Conversion Instructions: shfl.sync" and "Parallel
Synchronization and Communication Instructions: vote.sync"; LLVM, "User Guide for NVPTX Back-end".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir

from kerneldsl.lowering.calls import Call, Emitter
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["EMITTERS"]

_i1 = ir.IntType(1)
_i32 = ir.IntType(32)
_i64 = ir.IntType(64)


def _shuffle(mode: str, call: Call) -> ir.Value:
    """Exchange registers of 32 bits: one of them, or the two halves of a value of 64 bits."""
    builder = call.builder
    mask, value, lane = call.args
    # The last lane whose index is in range; segments of the whole warp.
    clamp = _i32(0x00 if mode == "up" else 0x1F)

    def exchange(part: ir.Value) -> ir.Value:
        return call_nvvm(builder, f"shfl.sync.{mode}.i32", _i32, [mask, part, lane, clamp])

    kind = value.type
    if call.signature.return_type.bitwidth == 32:
        return builder.bitcast(exchange(builder.bitcast(value, _i32)), kind)
    bits = builder.bitcast(value, _i64)
    low = exchange(builder.trunc(bits, _i32))
    high = exchange(builder.trunc(builder.lshr(bits, _i64(32)), _i32))
    whole = builder.or_(builder.zext(low, _i64), builder.shl(builder.zext(high, _i64), _i64(32)))
    return builder.bitcast(whole, kind)


def _vote(mode: str, call: Call) -> ir.Value:
    mask, predicate = call.args
    predicate = call.context.is_true(call.builder, call.signature.args[1], predicate)
    result = _i32 if mode == "ballot" else _i1
    return call_nvvm(call.builder, f"vote.{mode}.sync", result, [mask, predicate])


EMITTERS: dict[str, Emitter] = {
    "shfl_sync": partial(_shuffle, "idx"),
    "shfl_up_sync": partial(_shuffle, "up"),
    "shfl_down_sync": partial(_shuffle, "down"),
    "shfl_xor_sync": partial(_shuffle, "bfly"),
    "ballot_sync": partial(_vote, "ballot"),
    "all_sync": partial(_vote, "all"),
    "any_sync": partial(_vote, "any"),
}
