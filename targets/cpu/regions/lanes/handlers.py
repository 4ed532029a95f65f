"""Write the operations of lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS"]

_I8 = ir.IntType(8)


def _slot(emitter: CpuEmitter, operation: Operation) -> None:
    if operation.result in emitter.values:
        return
    kind = emitter.context.get_data_type(operation.result.type)
    emitter.set(operation, emitter.reserve(kind, operation.attributes["lanes"]))


def _place(emitter: CpuEmitter, slot: Value, lane: Value) -> Any:
    return emitter.builder.gep(emitter.get(slot), [emitter.get(lane)], inbounds=True)


def _load(emitter: CpuEmitter, operation: Operation) -> None:
    slot, _ = operation.operands
    model = emitter.context.data_model_manager[slot.type]
    stored = emitter.read(_place(emitter, *operation.operands))
    value = model.from_data(emitter.builder, stored)
    emitter.set(operation, emitter.convert(value, slot.type, operation.result.type))


def _store(emitter: CpuEmitter, operation: Operation) -> None:
    slot, value, lane = operation.operands
    model = emitter.context.data_model_manager[slot.type]
    found = emitter.convert(emitter.get(value), value.type, slot.type)
    emitter.write(model.as_data(emitter.builder, found), _place(emitter, slot, lane))


def _lanes(emitter: CpuEmitter, slot: Value) -> tuple[Any, ir.VectorType]:
    """Return the address of the truth values of all lanes, as one vector."""
    assert isinstance(slot.owner, Operation)
    kind = ir.VectorType(_I8, slot.owner.attributes["lanes"])
    return emitter.builder.bitcast(emitter.get(slot), kind.as_pointer()), kind


def _any(emitter: CpuEmitter, operation: Operation) -> None:
    """Write whether a truth value of a lane is set."""
    builder = emitter.builder
    place, kind = _lanes(emitter, operation.operands[0])
    bits = builder.icmp_unsigned("!=", builder.load(place), ir.Constant(kind, [0] * kind.count))
    mask = builder.bitcast(bits, ir.IntType(kind.count))
    emitter.set(operation, builder.icmp_unsigned("!=", mask, mask.type(0)))


def _clear(emitter: CpuEmitter, operation: Operation) -> None:
    place, kind = _lanes(emitter, operation.operands[0])
    emitter.builder.store(ir.Constant(kind, [0] * kind.count), place)


def _head(emitter: CpuEmitter, operation: Operation) -> None:
    """Keep the block before a loop over lanes apart from the head of the loop around it.

    LLVM would merge an empty one, and then has a single loop, which it cannot unroll: the values of
    lanes would stay in memory. ``llvm.sideeffect`` is no instruction in the end.
    """
    builder = emitter.builder
    nothing = ir.FunctionType(ir.VoidType(), ())
    builder.call(builder.module.declare_intrinsic("llvm.sideeffect", (), nothing), ())


def _thread(emitter: CpuEmitter, operation: Operation) -> None:
    """Let what follows find the memory of a thread."""
    emitter.ids["threadIdx.x"] = emitter.get(operation.operands[0])


HANDLERS = {
    "lane.slot": _slot,
    "lane.load": _load,
    "lane.store": _store,
    "lane.any": _any,
    "lane.clear": _clear,
    "lane.head": _head,
    "lane.thread": _thread,
}
