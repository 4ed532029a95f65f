"""Local arrays: memory that threads use one after the other, or a copy for each thread.

A thread keeps the elements of its array across a barrier. So an array that several loops over
threads name has a copy for each thread. In one loop all threads use the same memory.
"""

from __future__ import annotations

import math
from collections import Counter

from llvmlite import ir
from numba import types

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Operation, Region
from targets.cpu.codegen.storage import StaticArray
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "name_local_memory", "place_local_arrays"]

_I64 = ir.IntType(64)
_NAME = "local.array"


def name_local_memory(region: Region) -> None:
    """Give each local array a name of its memory, which copies of the operation share."""
    for operation in region.walk():
        if operation.name == _NAME:
            operation.attributes["memory"] = operation


def place_local_arrays(region: Region) -> None:
    """Give threads copies of the arrays that outlive a loop over threads, in place."""
    loops = [each for each in region.walk() if each.name == "threads"]
    named = [{_memory(each) for each in loop.walk() if each.name == _NAME} for loop in loops]
    counts = Counter(memory for memories in named for memory in memories)
    # What is stored for a later loop may be a view of any of them.
    keeps_views = any(
        each.name == "slot.store" and isinstance(each.operands[1].type, types.Array)
        for each in region.walk()
    )
    for loop in loops:
        for operation in loop.walk():
            if operation.name == _NAME:
                memory = _memory(operation)
                operation.attributes["is_copied"] = keeps_views or counts[memory] > 1


def _memory(operation: Operation) -> Operation:
    found: Operation = operation.attributes["memory"]
    return found


def _local(emitter: CpuEmitter, operation: Operation) -> None:
    attributes, kind = operation.attributes, operation.result.type
    shape, is_copied = attributes["shape"], attributes.get("is_copied", False)
    lanes = attributes.get("lanes")
    memory = attributes.get("memory", operation)
    count = math.prod(shape)
    if memory not in emitter.local_memory:
        copies = emitter.threads_count if is_copied else lanes or 1
        unit, name = attributes["site"]
        array = StaticArray(attributes["use"], unit.locate_use(name), copies)
        element = emitter.context.get_data_type(kind.dtype)
        emitter.local_memory[memory] = emitter.reserve(element, count * copies, array)
    data = emitter.local_memory[memory]
    if is_copied:
        start = emitter.builder.mul(emitter.thread_number(), _I64(count), flags=["nsw"])
        data = emitter.builder.gep(data, [start], inbounds=True)
    extents = shape if lanes is None else (*shape, lanes)
    emitter.set(operation, ArrayParts(data, [_I64(extent) for extent in extents], kind))


HANDLERS = {_NAME: _local}
