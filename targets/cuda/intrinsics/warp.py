"""Exchanges between the lanes of a warp.

References
----------
PTX ISA, sections "Data Movement and Conversion Instructions: shfl.sync" and "Parallel
Synchronization and Communication Instructions: vote.sync"; LLVM, "User Guide for NVPTX Back-end".
"""

from __future__ import annotations

from functools import partial

from llvmlite import ir
from numba import types

from kerneldsl.lowering.calls import Call, Emitter
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.synchronize import call_nvvm, shuffle

__all__ = ["EMITTERS"]

_i1 = ir.IntType(1)
_i32 = ir.IntType(32)


def _shuffle(mode: str, call: Call) -> ir.Value:
    mask, value, lane = call.args
    return shuffle(call.builder, mode, mask, value, lane)


def _vote(mode: str, call: Call) -> ir.Value:
    mask, predicate = call.args
    predicate = call.context.is_true(call.builder, call.signature.args[1], predicate)
    result = _i32 if mode == "ballot" else _i1
    return call_nvvm(call.builder, f"vote.{mode}.sync", result, [mask, predicate])


def _active_lanes(call: Call) -> ir.Value:
    return call_by_architecture(call.builder, "activemask", _i32, [])


def _lower_lanes(call: Call) -> ir.Value:
    return call_nvvm(call.builder, "read.ptx.sreg.lanemask.lt", _i32, [])


def _bits(call: Call) -> ir.Value:
    """Return a value's 32 or 64 bits."""
    value = call.args[1]
    return call.builder.bitcast(value, ir.IntType(call.signature.args[1].bitwidth))


def _match_any(call: Call) -> ir.Value:
    bits = _bits(call)
    return call_by_architecture(call.builder, f"match_any_{bits.type}", _i32, [call.args[0], bits])


def _match_all(call: Call) -> ir.Value:
    builder, bits = call.builder, _bits(call)
    lanes = call_by_architecture(builder, f"match_all_{bits.type}", _i32, [call.args[0], bits])
    is_same = builder.icmp_unsigned("!=", lanes, _i32(0))
    truth = call.context.get_value_type(types.boolean)
    is_true = builder.zext(is_same, truth) if truth != _i1 else is_same
    return call.context.make_tuple(builder, call.signature.return_type, (lanes, is_true))


def _reduce(operation: str, call: Call) -> ir.Value:
    name = f"reduce_{operation}_{call.signature.return_type}"
    return call_by_architecture(call.builder, name, call.args[1].type, call.args)


EMITTERS: dict[str, Emitter] = {
    "shfl_sync": partial(_shuffle, "idx"),
    "shfl_up_sync": partial(_shuffle, "up"),
    "shfl_down_sync": partial(_shuffle, "down"),
    "shfl_xor_sync": partial(_shuffle, "bfly"),
    "ballot_sync": partial(_vote, "ballot"),
    "all_sync": partial(_vote, "all"),
    "any_sync": partial(_vote, "any"),
    "eq_sync": partial(_vote, "uni"),
    "activemask": _active_lanes,
    "lanemask_lt": _lower_lanes,
    "match_any_sync": _match_any,
    "match_all_sync": _match_all,
    **{
        f"reduce_{operation}_sync": partial(_reduce, operation)
        for operation in ("add", "min", "max", "and", "or", "xor")
    },
}
