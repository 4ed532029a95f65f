"""Memory of a block: shared arrays."""

from __future__ import annotations

import math
from typing import Any

from llvmlite import ir

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Operation
from targets.cpu.codegen.code import SPACE_WORDS
from targets.cpu.codegen.storage import StaticArray
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "shared"]

_I64 = ir.IntType(64)


def shared(emitter: CpuEmitter, operation: Operation) -> None:
    if operation.result in emitter.values:
        return
    shape = tuple(operation.attributes["shape"])
    kind = operation.result.type
    element = emitter.context.get_data_type(kind.dtype)
    if shape == (0,):
        emitter.set(operation, _dynamic(emitter, kind, element))
        return
    unit = emitter.spec.unit
    where = unit.locate(unit.tree)
    if "site" in operation.attributes:
        unit, name = operation.attributes["site"]
        where = unit.locate_use(name)
    array = StaticArray(operation.attributes["use"], where)
    data = emitter.reserve(element, math.prod(shape), array)
    emitter.set(operation, ArrayParts(data, [_I64(extent) for extent in shape], kind))


def _dynamic(emitter: CpuEmitter, kind: Any, element: Any) -> ArrayParts:
    """Return the memory that a launch adds: it is after all that is in scratch memory."""
    builder = emitter.builder
    with emitter.at_start():
        offset = builder.load(emitter.scratch_bytes())
        place = builder.gep(emitter.memory, [offset], inbounds=True)
        data = builder.bitcast(place, element.as_pointer())
        nbytes = emitter.word(2 + SPACE_WORDS)
        extent = builder.udiv(nbytes, _I64(emitter.context.get_abi_sizeof(element)))
    return ArrayParts(data, [extent], kind)


HANDLERS = {"shared.array": shared}
