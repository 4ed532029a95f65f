"""Parts that a kernel cuts out of dynamic shared memory: ``kd.shared.array(0, dtype)[:n]``.

A slice ends at the end of its array, so a part of too few bytes looks like one of enough. If a
block cuts a part out once for all of its threads, the ends are compared with the memory of the
launch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Effect, Operation, Region, Value
from kerneldsl.lowering.numba_internals.regions import return_number
from targets.cpu.codegen.code import MAX_DYNAMIC_BYTES, MAX_DYNAMIC_LINE, dynamic_failure
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.varying import VARYING

__all__ = ["HANDLERS", "check_dynamic_slices"]

_I64 = ir.IntType(64)
_NAME = "dynamic.bound"
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
    if not (_is_dynamic(array) and isinstance(index.type, types.SliceType)):
        return
    made = index.owner
    assert isinstance(made, Operation)
    for end in made.operands[:2]:
        is_shared = not (by_threads and _is_of_threads(end))
        if isinstance(end.type, types.Integer) and is_shared:
            place = operation.place
            yield Operation(_NAME, [end, array], effect=Effect.WRITE, place=place)


def _is_dynamic(array: Value) -> bool:
    made = array.owner
    is_shared = isinstance(made, Operation) and made.name == "shared.array"
    return is_shared and tuple(made.attributes["shape"]) == (0,)  # type: ignore[union-attr]


def _is_of_threads(value: Value) -> bool:
    """Return whether a value may differ between threads."""
    made = value.owner
    if not isinstance(made, Operation):
        return False
    differs = made.name in VARYING or bool(made.regions) or bool(made.effect)
    return differs or any(map(_is_of_threads, made.operands))


def _bound(emitter: CpuEmitter, operation: Operation) -> None:
    end, array = operation.operands
    context, builder = emitter.context, emitter.builder
    (count,) = emitter.shape(array)
    item = context.get_abi_sizeof(context.get_data_type(array.type.dtype))
    given = emitter.converted(end, types.int64)
    _compare(context, builder, given, count, item, operation.place.line)


def _compare(context: Any, builder: Any, end: Any, count: Any, item: int, line: int) -> None:
    """Leave the function if a slice ends beyond so many items of dynamic shared memory.

    `item` is the size of an item, and `line` that of the slice. What is reported of a failure is in
    :mod:`targets.cpu.codegen.code`.
    """
    with builder.if_then(builder.icmp_signed(">", end, count), likely=False):
        most = _I64(MAX_DYNAMIC_BYTES // item)
        end = builder.select(builder.icmp_signed("<", end, most), end, most)
        told = dynamic_failure(min(line, MAX_DYNAMIC_LINE))
        return_number(context, builder, builder.add(builder.mul(end, _I64(item)), _I64(told)))


HANDLERS = {_NAME: _bound}
