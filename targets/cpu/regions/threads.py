"""Loops over constants that hold loops over threads."""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loops import CountedLoop

__all__ = ["HANDLERS"]

_I64 = ir.IntType(64)


def _for_each(emitter: CpuEmitter, operation: Operation) -> None:
    """Count through a table of the constants."""
    (body,) = operation.regions
    values = operation.attributes.get("values", ())
    if operation.operands or not values or not any(each.name == "row" for each in body.walk()):
        emitter.for_each(operation)
        return
    builder = emitter.builder
    kind = ir.ArrayType(_I64, len(values))
    module = builder.module
    table = ir.GlobalVariable(module, kind, module.get_unique_name("values"))
    table.linkage, table.global_constant = "internal", True
    table.initializer = ir.Constant(kind, list(values))
    with CountedLoop(builder, _I64(0), _I64(len(values))) as number:
        place = builder.gep(table, [_I64(0), number])
        emitter.values[body.arguments[0]] = builder.load(place)
        emitter.operations(body.operations[:-1])


HANDLERS = {"for_each": _for_each}
