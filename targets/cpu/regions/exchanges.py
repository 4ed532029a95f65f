"""Exchanges of values between the lanes of a warp."""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.slots import slot_place

__all__ = ["HANDLERS"]

_I64 = ir.IntType(64)


def _down(emitter: CpuEmitter, operation: Operation) -> None:
    """Read what a lane above has posted; the slot has places for a warp more."""
    builder = emitter.builder
    slot, delta = operation.operands
    thread = emitter.ids["threadIdx.x"]
    step = builder.and_(builder.zext(emitter.get(delta), _I64), _I64(31))
    lane = builder.and_(thread, _I64(31))
    is_there = builder.icmp_unsigned("<", builder.add(lane, step), _I64(32))
    own = emitter.read(slot_place(emitter, slot, thread))
    other = emitter.read(slot_place(emitter, slot, builder.add(thread, step)))
    model = emitter.context.data_model_manager[operation.result.type]
    emitter.set(operation, model.from_data(builder, builder.select(is_there, other, own)))


HANDLERS = {"lane.down": _down}
