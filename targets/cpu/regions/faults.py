"""Debug mode: tests of indices, and the end of a thread that failed.

A fault names its thread and block. They are operands of its operation, so that other passes keep
them like any value.
"""

from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils

from kerneldsl.ir.operations import Effect, Function, Operation, Region, Value
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loop_writer import LoopWriter
from targets.cpu.runtime.native_tables import LaunchWord

__all__ = ["HANDLERS", "fault_record", "place_faults"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
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
            # Operations of a combination by the block are not checked.
            for inner in operation.regions:
                _drop(inner)
        is_block = is_together or bool(operation.effect & Effect.BLOCK)
        for inner in operation.regions:
            _place(inner, axes, is_together=is_block)
        if operation.name in _FAULTS:
            make = LoopWriter(out)
            place = [_coordinate(make, axis, axes, is_together=is_together) for axis in _AXES]
            place += [make.constant(0) if axes else make.add(f"blockIdx.{a}") for a in _AXES]
            operation.operands = [*operation.operands, *place]
        out.append(operation)
    region.operations = out


def _drop(region: Region) -> None:
    region.operations = [each for each in region.operations if each.name not in _FAULTS]
    for operation in region.operations:
        for inner in operation.regions:
            _drop(inner)


def _coordinate(make: LoopWriter, axis: str, axes: str | None, *, is_together: bool) -> Value:
    """Return the index of a thread along an axis; what runs once is of the first thread."""
    if is_together:
        return make.constant(0)
    if axes is None:
        return make.add(f"threadIdx.{axis}")
    if axis not in axes:
        return make.constant(0)
    attributes = {"ndim": 1, "axis": axes.index(axis)}
    return make.operation("grid", [], (types.int64,), attributes).result


# -- emission -------------------------------------------------------------------------------------
# The host reads what is recorded here in :mod:`targets.cpu.runtime.faults`.


def fault_record(emitter: CpuEmitter) -> ir.Value:
    """Return the address of the fault record, 0 if there is none."""
    return emitter.word(LaunchWord.FAULT_RECORD) if emitter.spec.options.debug else _I64(0)


def _fault(emitter: CpuEmitter, operation: Operation) -> None:
    with emitter.builder.if_then(cgutils.true_bit):
        _record(emitter, operation, operation.operands, 0, (_I64(0), _I64(0)))


def _check(emitter: CpuEmitter, operation: Operation) -> None:
    checked, extent, *place = operation.operands
    kind = types.int64 if checked.type.signed else types.uint64
    index, bound = emitter.converted(checked, kind), emitter.converted(extent, types.int64)
    builder = emitter.builder
    inside = builder.icmp_unsigned("<", index, bound)
    if checked.type.signed and emitter.spec.options.wraparound:
        # An index from -bound on counts from the end.
        wrapped = builder.icmp_unsigned("<", builder.add(index, bound), bound)
        inside = builder.or_(inside, wrapped)
    with builder.if_then(builder.not_(inside), likely=False):
        _record(emitter, operation, place, operation.attributes["axis"], (index, bound))


def _record(
    emitter: CpuEmitter,
    operation: Operation,
    place: list[Value],
    axis: int,
    numbers: tuple[ir.Value, ir.Value],
) -> None:
    """Claim the fault record if no thread has, fill it, and leave the compiled function.

    The record's layout is `kerneldsl.lowering.faults.FaultRecord`; `numbers` are the index and the
    extent of its axis.
    """
    builder = emitter.builder
    pointer = builder.inttoptr(fault_record(emitter), _I32.as_pointer())
    claimed = builder.cmpxchg(pointer, _I32(0), _I32(1), "seq_cst", "seq_cst")
    with builder.if_then(builder.extract_value(claimed, 1)):
        for i, word in enumerate((operation.attributes["site"], axis)):
            builder.store(_I32(word), builder.gep(pointer, [_I32(1 + i)]))
        wide = builder.bitcast(pointer, _I64.as_pointer())
        for i, number in enumerate(numbers):
            builder.store(number, builder.gep(wide, [_I32(2 + i)]))
        for i, coordinate in enumerate(place):
            narrow = builder.trunc(emitter.get(coordinate), _I32)
            builder.store(narrow, builder.gep(pointer, [_I32(8 + i)]))
    emitter.context.call_conv.return_user_exc(builder, RuntimeError, ("kernel fault",))


HANDLERS = {"fault": _fault, "fault.check": _check}
