"""Exceptions that end a thread as in Python: the launch raises them."""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS"]

_I64 = ir.IntType(64)


def _for(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a loop over a range. Its step must not be zero."""
    builder, step = emitter.builder, emitter.get(operation.operands[2])
    if not isinstance(step, ir.Constant) or step.constant == 0:
        is_zero = builder.icmp_signed("==", step, step.type(0))
        _raise_if(emitter, is_zero, "range() arg 3 must not be zero")
    emitter.for_loop(operation)


def _unpack(emitter: CpuEmitter, operation: Operation) -> None:
    """Compare the length of an array with the number of names that take its elements."""
    extent, *_ = emitter.shape(operation.operands[0])
    count = operation.attributes["count"]
    is_other = emitter.builder.icmp_signed("!=", extent, _I64(count))
    _raise_if(emitter, is_other, f"an array that is unpacked must have the length {count}")


def _raise_if(emitter: CpuEmitter, condition: ir.Value, text: str) -> None:
    with emitter.builder.if_then(condition, likely=False):
        emitter.context.call_conv.return_user_exc(emitter.builder, ValueError, (text,))


HANDLERS = {"for": _for, "unpack.check": _unpack}
