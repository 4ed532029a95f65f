"""Memory of a block: shared and local arrays, cells for a value, and slots for each thread's.

Threads use the memory of a local array one after the other, or have a copy each. A thread keeps the
elements of its array across a barrier. So an array that several loops over threads name has a copy
for each thread. In one loop all threads use the same memory.

Kernels cut parts out of dynamic shared memory: ``kd.shared.array(0, dtype)[:n]``. A slice ends at
the end of its array, so a part of too few bytes looks like one of enough. If a block cuts a part
out once for all of its threads, the ends are compared with the memory of the launch.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.ir.rewriter import clone
from kerneldsl.lowering.numba_internals.llvm_modules import return_number
from targets.cpu.codegen.storage import StaticArray, is_dynamic
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.runtime.native_tables import (
    MAX_DYNAMIC_BYTES,
    MAX_DYNAMIC_LINE,
    LaunchWord,
    dynamic_failure,
)

__all__ = [
    "HANDLERS",
    "VARYING",
    "Crossing",
    "cell",
    "check_dynamic_slices",
    "load",
    "name_local_memory",
    "place_local_arrays",
    "shared",
    "slot",
    "slot_place",
    "store",
]

_I64 = ir.IntType(64)
#: Operations with results that differ between the threads of a block.
VARYING = frozenset((*(f"threadIdx.{axis}" for axis in "xyz"), "local.array"))


def shared(emitter: CpuEmitter, operation: Operation) -> None:
    if operation.result in emitter.values:
        return
    shape = tuple(operation.attributes["shape"])
    kind = operation.result.type
    element = emitter.context.get_data_type(kind.dtype)
    if shape == (0,):
        emitter.set(operation, _dynamic_array(emitter, kind, element))
        return
    unit = emitter.spec.unit
    where = unit.locate(unit.tree)
    if "site" in operation.attributes:
        unit, name = operation.attributes["site"]
        where = unit.locate_use(name)
    array = StaticArray(operation.attributes["use"], where)
    data = emitter.reserve(element, math.prod(shape), array)
    emitter.set(operation, ArrayParts(data, [_I64(extent) for extent in shape], kind))


def _dynamic_array(emitter: CpuEmitter, kind: Any, element: Any) -> ArrayParts:
    """Return the memory that a launch adds: it is after all that is in scratch memory."""
    builder = emitter.builder
    with emitter.at_start():
        offset = builder.load(emitter.scratch_bytes())
        place = builder.gep(emitter.memory, [offset], inbounds=True)
        data = builder.bitcast(place, element.as_pointer())
        nbytes = emitter.word(LaunchWord.SHARED_BYTES)
        extent = builder.udiv(nbytes, _I64(emitter.context.get_abi_sizeof(element)))
    return ArrayParts(data, [extent], kind)


# -- local arrays ----------------------------------------------------------------------------------


_LOCAL = "local.array"


def name_local_memory(region: Region) -> None:
    """Give each local array a name of its memory, which copies of the operation share."""
    for operation in region.walk():
        if operation.name == _LOCAL:
            operation.attributes["memory"] = operation


def place_local_arrays(region: Region) -> None:
    """Give threads copies of the arrays that outlive a loop over threads, in place."""
    loops = [each for each in region.walk() if each.name == "threads"]
    named = [{_memory(each) for each in loop.walk() if each.name == _LOCAL} for loop in loops]
    counts = Counter(memory for memories in named for memory in memories)
    # A value stored for a later loop may be a view of any of these arrays.
    keeps_views = any(
        each.name == "slot.store" and isinstance(each.operands[1].type, types.Array)
        for each in region.walk()
    )
    for loop in loops:
        for operation in loop.walk():
            if operation.name == _LOCAL:
                memory = _memory(operation)
                operation.attributes["is_copied"] = keeps_views or counts[memory] > 1


def _memory(operation: Operation) -> Operation:
    found: Operation = operation.attributes["memory"]
    return found


def _write_local(emitter: CpuEmitter, operation: Operation) -> None:
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


# -- parts of dynamic shared memory ----------------------------------------------------------------


_BOUND = "dynamic.bound"
_LOOPS = ("threads", "row")


def check_dynamic_slices(region: Region, *, by_threads: bool) -> None:
    """Compare the ends of slices that a block makes once, in place.

    If blocks wait for each other, each thread makes them again: `by_threads`.
    """
    out: list[Operation] = []
    for operation in region.operations:
        if by_threads or operation.name not in _LOOPS:
            for inner in operation.regions:
                check_dynamic_slices(inner, by_threads=by_threads)
        out += [*_bounds(operation, by_threads=by_threads), operation]
    region.operations = out


def _bounds(operation: Operation, *, by_threads: bool) -> Iterator[Operation]:
    if operation.name != "array.view" or len(operation.operands) != 2:
        return
    array, index = operation.operands
    if not (is_dynamic(array) and isinstance(index.type, types.SliceType)):
        return
    made = index.owner
    assert isinstance(made, Operation)
    for end in made.operands[:2]:
        is_shared = not (by_threads and _is_of_threads(end))
        if isinstance(end.type, types.Integer) and is_shared:
            place = operation.place
            yield Operation(_BOUND, [end, array], effect=Effect.WRITE, place=place)


def _is_of_threads(value: Value) -> bool:
    """Return whether a value may differ between threads."""
    made = value.owner
    if not isinstance(made, Operation):
        return False
    differs = made.name in VARYING or bool(made.regions) or bool(made.effect)
    return differs or any(map(_is_of_threads, made.operands))


def _bound(emitter: CpuEmitter, operation: Operation) -> None:
    """Leave the function if a slice ends beyond the items of dynamic shared memory."""
    end, array = operation.operands
    context, builder = emitter.context, emitter.builder
    (count,) = emitter.shape(array)
    item = context.get_abi_sizeof(context.get_data_type(array.type.dtype))
    given = emitter.converted(end, types.int64)
    with builder.if_then(builder.icmp_signed(">", given, count), likely=False):
        most = _I64(MAX_DYNAMIC_BYTES // item)
        known = builder.select(builder.icmp_signed("<", given, most), given, most)
        told = dynamic_failure(min(operation.place.line, MAX_DYNAMIC_LINE))
        return_number(context, builder, builder.add(builder.mul(known, _I64(item)), _I64(told)))


# -- values ----------------------------------------------------------------------------------------


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


def load(emitter: CpuEmitter, operation: Operation) -> None:
    """Load what a thread has in a slot, or a lane."""
    slot, number = operation.operands
    model = emitter.context.data_model_manager[slot.type]
    stored = emitter.read(slot_place(emitter, slot, emitter.get(number)))
    found = emitter.wrapped(model.from_data(emitter.builder, stored), slot.type)
    emitter.set(operation, emitter.convert(found, slot.type, operation.result.type))


def store(emitter: CpuEmitter, operation: Operation) -> None:
    slot, value, number = operation.operands
    model = emitter.context.data_model_manager[slot.type]
    found = emitter.converted(value, slot.type)
    found = model.as_data(emitter.builder, found)
    emitter.write(found, slot_place(emitter, slot, emitter.get(number)))


# -- values that several loops over threads need ---------------------------------------------------


_MOST_AGAIN, _FAR = 6, 99


class Crossing(ABC):
    """Gives each of some loops over threads the values that it needs of others.

    A value is computed again if that is cheap. If not, it is stored in a slot, which has a place
    for each thread.
    """

    def __init__(self, loops: list[Operation]) -> None:
        self.loops = loops
        inside = [(loop, each) for loop in loops for each in loop.regions[0].walk()]
        #: The loop that defines a value.
        self.home = {value: loop for loop, each in inside for value in each.results}
        #: Operands of operations before loops had separate values.
        self.operands = {each: list(each.operands) for _, each in inside}
        #: Values that are stored, with their slots.
        self.stored: dict[Value, Value] = {}

    @abstractmethod
    def is_given(self, value: Value) -> bool:
        """Return whether all loops have a value."""

    @abstractmethod
    def place_of(self, value: Value) -> Value | None:
        """Return the memory that has a value wherever a loop needs it."""

    @abstractmethod
    def new_place(self, value: Value) -> Value:
        """Return a slot for a value."""

    @abstractmethod
    def is_cheap(self, made: Operation) -> bool:
        """Return whether an operation is performed again rather than its result stored."""

    def run(self) -> None:
        """Complete the loops."""
        for loop in self.loops:
            self.loop = loop
            own, front, values = loop.defined(), LoopWriter(), dict[Value, Value]()
            for operation in list(loop.regions[0].walk()):
                for number, value in enumerate(operation.operands):
                    if value not in own:
                        operation.operands[number] = self.here(value, values, front)
            loop.regions[0].operations[:0] = front.operations
        for value, place in self.stored.items():
            store = Operation(_access(place, "store"), [place, value], effect=Effect.WRITE)
            _insert_after(self.home[value].regions[0], value, store)

    def here(self, value: Value, values: dict[Value, Value], front: LoopWriter) -> Value:
        """Return a value of another loop in the one that begins with `front`."""
        if value in values or self.is_given(value):
            return values.get(value, value)
        place = self.place_of(value)
        if place is None and self.cost(value) <= _MOST_AGAIN:
            made = value.owner
            assert isinstance(made, Operation)
            again = [self.here(each, values, front) for each in self.operands[made]]
            front.operations.append(clone(made, values))
            front.operations[-1].operands = again
            return values[value]
        if place is None:
            place = self.stored[value] = self.new_place(value)
        kept = front.operation(_access(place, "load"), [place], (value.type,), effect=Effect.READ)
        kept.result.name = value.name
        values[value] = kept.result
        return kept.result

    def cost(self, value: Value) -> int:
        """Return how many operations it takes to compute a value again."""
        if self.is_given(value):
            return 0
        made = value.owner
        if not isinstance(made, Operation) or len(made.results) != 1 or made.regions:
            return _FAR
        if self.place_of(value) is not None or not self.is_cheap(made):
            return _FAR
        return 1 + sum(map(self.cost, self.operands[made]))


def _access(place: Value, what: str) -> str:
    """Return the name of an access of a cell, a slot, or a slot of lanes."""
    assert isinstance(place.owner, Operation)
    return f"{place.owner.name.removesuffix('.slot')}.{what}"


def _insert_after(region: Region, value: Value, store: Operation) -> None:
    """Insert an operation after the one that gives a value."""
    for number, operation in enumerate(region.operations):
        if value in operation.results:
            region.operations.insert(number + 1, store)
            return
        for inner in operation.regions:
            _insert_after(inner, value, store)


HANDLERS = {
    "shared.array": shared,
    _LOCAL: _write_local,
    _BOUND: _bound,
    **{"cell": cell, "cell.store": _store_cell, "cell.load": _load_cell},
    **{"slot": slot, "slot.load": load, "slot.store": store},
}
