"""Operations on one thread's values, by instructions that LLVM does not find by itself.

References
----------
PTX ISA, sections "prmt", "rsqrt" and "nanosleep"; LLVM, "User Guide for NVPTX Back-end".
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.lowering.calls import Call, Emitter
from targets.cuda.intrinsics.by_architecture import call_by_architecture
from targets.cuda.intrinsics.synchronize import call_nvvm

__all__ = ["EMITTERS"]

_I32 = ir.IntType(32)


def _permute_bytes(call: Call) -> ir.Value:
    low, high, selector = call.args
    # The fourth bit of a number would repeat the byte's sign.
    numbers = call.builder.and_(selector, _I32(0x7777))
    return call_nvvm(call.builder, "prmt", _I32, [low, high, numbers])


def _reciprocal_root(call: Call) -> ir.Value:
    (value,) = call.args
    precision = "f" if call.signature.return_type.bitwidth == 32 else "d"
    return call_nvvm(call.builder, f"rsqrt.approx.{precision}", value.type, [value])


def _dot(call: Call) -> ir.Value:
    first, second, _ = call.signature.args
    signs = "".join("s" if kind.signed else "u" for kind in (first, second))
    return call_by_architecture(call.builder, f"dot4_{signs}", _I32, call.args)


def _sleep(call: Call) -> ir.Value:
    call_by_architecture(call.builder, "nanosleep", ir.VoidType(), call.args)
    return call.context.get_dummy_value()


EMITTERS: dict[str, Emitter] = {
    "byte_perm": _permute_bytes,
    "dot4": _dot,
    "rsqrt": _reciprocal_root,
    "nanosleep": _sleep,
}
