"""Cells: memory of a block for one value."""

from __future__ import annotations

from kerneldsl.ir.operations import Operation
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "cell"]


def cell(emitter: CpuEmitter, operation: Operation) -> None:
    """Reserve the memory."""
    if operation.result not in emitter.values:
        kind = emitter.context.get_value_type(operation.result.type)
        emitter.set(operation, emitter.reserve(kind, 1))


def _store(emitter: CpuEmitter, operation: Operation) -> None:
    place, value = operation.operands
    emitter.builder.store(emitter.plain(emitter.get(value), value.type), emitter.get(place))


def _load(emitter: CpuEmitter, operation: Operation) -> None:
    found = emitter.builder.load(emitter.get(operation.operands[0]))
    emitter.set(operation, emitter.wrapped(found, operation.result.type))


HANDLERS = {"cell": cell, "cell.store": _store, "cell.load": _load}
