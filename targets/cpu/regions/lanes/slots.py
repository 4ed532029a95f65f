"""Memory with a place for each lane of a strip, and the code of the operations of lanes.

An integer has a slot of 32 bits if nothing reads more of it.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import (
    CONTROL,
    Effect,
    Operation,
    Region,
    Value,
    carried_arguments,
    ends_of,
    given_to,
)
from kerneldsl.ir.ranges import Interval, ranges_of_region
from kerneldsl.ir.recognize import operator_of
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "LaneSlots", "NotStrippedError", "low_bits_only"]

_LONG: Interval = (-(2**63), 2**63 - 1)


class NotStrippedError(Exception):
    """A row that is not run in strips, because of a value that lanes cannot keep."""


class LaneSlots:
    """The slots of a strip of so many lanes, which runs a region."""

    def __init__(self, lanes: int, region: Region) -> None:
        self.lanes = lanes
        self.declared: list[Operation] = []
        #: Values that are read from a slot wherever a row needs them.
        self.place_of: dict[Value, Value] = {}
        self._low_bits = low_bits_only(region)
        self._known = ranges_of_region(region, {})

    def give(self, values: list[Value], name: str) -> Value:
        """Return a slot for values that exist one at a time; they are read from it."""
        is_narrow = all(map(self._is_narrow, values))
        place = self.make(types.int32 if is_narrow else values[0].type, values[0].name or name)
        self.place_of.update(dict.fromkeys(values, place))
        return place

    def share(self, values: list[Value], other: Value | None) -> Value | None:
        """Return the slot of another value, if it can have some values; they are read from it."""
        place = None if other is None else self.place_of.get(other)
        is_low = all(value in self._low_bits for value in values)
        if place is None or not (
            place.type == values[0].type or (is_low and place.type == types.int32)
        ):
            return None
        self.place_of.update(dict.fromkeys(values, place))
        return place

    def _is_narrow(self, value: Value) -> bool:
        """Return whether 32 bits have all that is read of an integer."""
        if value in self._low_bits:
            return True
        low, high = self._known.get(value, _LONG)
        return value.type == types.int64 and low >= -(2**31) and high < 2**31

    def make(self, kind: Any, name: str) -> Value:
        """Return a slot of a type."""
        if not isinstance(kind, types.Number | types.Boolean):
            raise NotStrippedError(str(kind))
        made = Operation("lane.slot", [], (kind,), {"lanes": self.lanes}, effect=Effect.ALLOCATE)
        made.result.name = f"{name}_lanes"
        self.declared.append(made)
        return made.result


# -- integers of which only the low 32 bits are read
# -------------------------------------------------


_WIDTH = 32
_LONG_TYPES = (types.int64, types.uint64)
#: Operators with low bits that depend on the low bits of their operands alone.
_MODULAR = frozenset(
    getattr(operator, name)
    for each in ("add", "sub", "mul", "and_", "or_", "xor")
    for name in (each, f"i{each.rstrip('_')}")
) | {operator.neg, operator.invert}


def low_bits_only(region: Region) -> set[Value]:
    """Return the integers of 64 bits in a region with a high half that is never read."""
    needs: dict[Value, list[Value]] = defaultdict(list)
    whole: list[Value] = []
    found: set[Value] = set()

    def hand_on(source: Value, target: Value) -> None:
        """Say that the high half of a value is read if that of another one is."""
        needs[target].append(source)

    for operation in region.walk():
        values = [*operation.results, *(v for each in operation.regions for v in each.arguments)]
        found.update(value for value in values if value.type in _LONG_TYPES)
        whole += _read_whole(operation, hand_on)
    whole += region.yielded
    while whole:
        value = whole.pop()
        found.discard(value)
        whole += needs.pop(value, [])
    return found


def _read_whole(operation: Operation, hand_on: object) -> list[Value]:
    """Return the operands that an operation reads whole; say what else it depends on."""
    assert callable(hand_on)
    if operation.name in ("yield", "leave"):
        return []  # what they lead to says it
    if operation.name in CONTROL:
        carried = carried_arguments(operation)
        count = len(given_to(operation))
        for number, result in enumerate(operation.results):
            same = [result, *(arguments[number] for arguments in carried)]
            sources = [end.operands[number] for end in ends_of(operation)]
            sources += given_to(operation)[number : number + 1]
            for one in same:
                for other in (*same, *sources):
                    hand_on(other, one)
        tests = operation.regions[0].yielded[:1] if operation.name == "while" else []
        return [*operation.operands[: len(operation.operands) - count], *tests]
    if operation.name == "cast" and _is_narrow(operation.result):
        return []
    if operator_of(operation) in _MODULAR and operation.result.type in _LONG_TYPES:
        for value in operation.operands:
            hand_on(value, operation.result)
        return []
    return [*operation.operands, *(v for each in operation.regions for v in each.yielded)]


def _is_narrow(value: Value) -> bool:
    return isinstance(value.type, types.Integer) and value.type.bitwidth <= _WIDTH


# -- code -----------------------------------------------------------------------------------------


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
