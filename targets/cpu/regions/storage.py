"""Memory of a block: shared arrays."""

from __future__ import annotations

import math

from llvmlite import ir

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Operation
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "shared"]

_I64 = ir.IntType(64)


def shared(emitter: CpuEmitter, operation: Operation) -> None:
    if operation.result in emitter.values:
        return
    shape = operation.attributes["shape"]
    if tuple(shape) == (0,):
        raise NotReadError("dynamic shared memory")
    kind = operation.result.type
    data = emitter.reserve(emitter.context.get_data_type(kind.dtype), math.prod(shape))
    emitter.set(operation, ArrayParts(data, [_I64(extent) for extent in shape], kind))


HANDLERS = {"shared.array": shared}
