"""Memory of a block for values: a cell has one, a slot has one for each thread."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Value
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "cell", "slot", "slot_place"]


def cell(emitter: CpuEmitter, operation: Operation) -> None:
    """Reserve the memory."""
    if operation.result not in emitter.values:
        kind = emitter.context.get_value_type(operation.result.type)
        emitter.set(operation, emitter.reserve(kind, 1))


def _store_cell(emitter: CpuEmitter, operation: Operation) -> None:
    place, value = operation.operands
    emitter.builder.store(emitter.plain(emitter.get(value), value.type), emitter.get(place))


def _load_cell(emitter: CpuEmitter, operation: Operation) -> None:
    found = emitter.builder.load(emitter.get(operation.operands[0]))
    emitter.set(operation, emitter.wrapped(found, operation.result.type))


def slot(emitter: CpuEmitter, operation: Operation) -> None:
    if operation.result in emitter.values:
        return
    kind = emitter.context.get_data_type(operation.result.type)
    before = operation.attributes.get("before", 0)
    data = emitter.reserve(kind, before + operation.attributes["threads"])
    with emitter.at_start():
        emitter.set(operation, emitter.builder.gep(data, [ir.IntType(64)(before)], inbounds=True))


def slot_place(emitter: CpuEmitter, slot: Value, thread: Any) -> Any:
    return emitter.builder.gep(emitter.get(slot), [thread], inbounds=True)


def _load(emitter: CpuEmitter, operation: Operation) -> None:
    slot, thread = operation.operands
    place = slot_place(emitter, slot, emitter.get(thread))
    kind = operation.result.type
    found = emitter.context.data_model_manager[kind].from_data(emitter.builder, emitter.read(place))
    emitter.set(operation, emitter.wrapped(found, kind))


def _store(emitter: CpuEmitter, operation: Operation) -> None:
    slot, value, thread = operation.operands
    place = slot_place(emitter, slot, emitter.get(thread))
    model = emitter.context.data_model_manager[value.type]
    plain = emitter.plain(emitter.get(value), value.type)
    emitter.write(model.as_data(emitter.builder, plain), place)


HANDLERS = {
    **{"cell": cell, "cell.store": _store_cell, "cell.load": _load_cell},
    **{"slot": slot, "slot.load": _load, "slot.store": _store},
}
