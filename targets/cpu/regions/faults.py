"""Debug mode: tests of indices, and the end of a thread that failed.

A fault names its thread and block. They are operands of its operation, so that other passes keep
them like any value.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from targets.cpu.codegen.code import SPACE_WORDS
from targets.cpu.intrinsics.faults import Fault, write_check, write_fault
from targets.cpu.regions.emitter import CpuEmitter

__all__ = ["HANDLERS", "fault_record", "place_faults"]

_I1, _I32, _I64 = (ir.IntType(bits) for bits in (1, 32, 64))
_FAULTS = ("fault", "fault.check")
_AXES = "xyz"


def place_faults(function: Function, axes: str | None) -> None:
    """Give each fault the indices of its thread and of its block, in place.

    `axes` are the axes of rows that the axes of ``grid`` are, in a kernel without blocks. There a
    thread has its index in the whole grid.
    """
    _place(function.body, axes, is_together=False)


def _place(region: Region, axes: str | None, *, is_together: bool) -> None:
    out: list[Operation] = []
    for operation in region.operations:
        if operation.effect & Effect.EXCHANGE:
            # What the block combines is not checked.
            for inner in operation.regions:
                _drop(inner)
        is_block = is_together or bool(operation.effect & Effect.BLOCK)
        for inner in operation.regions:
            _place(inner, axes, is_together=is_block)
        if operation.name in _FAULTS:
            place = [_coordinate(axis, axes, is_together=is_together) for axis in _AXES]
            place += [_constant(0) if axes else _id(f"blockIdx.{axis}") for axis in _AXES]
            operation.operands = [*operation.operands, *(each.result for each in place)]
            out += place
        out.append(operation)
    region.operations = out


def _drop(region: Region) -> None:
    region.operations = [each for each in region.operations if each.name not in _FAULTS]
    for operation in region.operations:
        for inner in operation.regions:
            _drop(inner)


def _coordinate(axis: str, axes: str | None, *, is_together: bool) -> Operation:
    """Return the index of a thread along an axis; what runs once is of the first thread."""
    if is_together:
        return _constant(0)
    if axes is None:
        return _id(f"threadIdx.{axis}")
    if axis not in axes:
        return _constant(0)
    return Operation("grid", [], (types.int64,), {"ndim": 1, "axis": axes.index(axis)})


def _id(name: str) -> Operation:
    return Operation(name, [], (types.int64,))


def _constant(value: int) -> Operation:
    return Operation("const", [], (types.int64,), {"value": value})


# -- emission -------------------------------------------------------------------------------------


def fault_record(emitter: CpuEmitter) -> ir.Value:
    """Return the address of the fault record, 0 if there is none."""
    return emitter.word(4 + SPACE_WORDS) if emitter.spec.options.debug else _I64(0)


def _fault_of(emitter: CpuEmitter, operation: Operation, place: list[Value]) -> Fault:
    site = _I32(operation.attributes["site"])
    return Fault(fault_record(emitter), site, [emitter.get(each) for each in place])


def _fault(emitter: CpuEmitter, operation: Operation) -> None:
    fault = _fault_of(emitter, operation, operation.operands)
    write_fault(emitter.context, emitter.builder, fault)


def _check(emitter: CpuEmitter, operation: Operation) -> None:
    index, indexed, *place = operation.operands
    first, second, _, axis = operation.attributes["signature"].args
    values: Any = emitter.converted(index, first), emitter.converted(indexed, second)
    fault = _fault_of(emitter, operation, place)
    wraps = _I1(emitter.spec.options.wraparound)
    kinds = (first, second)
    builder = emitter.builder
    write_check(emitter.context, builder, kinds, values, axis.literal_value, wraps, fault)


HANDLERS = {"fault": _fault, "fault.check": _check}
