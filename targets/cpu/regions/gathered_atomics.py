"""Gather atomic operations on small arrays in memory of each worker.

Blocks end with ``atomic.add(sums, t, own)``: every worker updates the same few elements, and each
waits for the caches of the others. An operation can wait if nothing uses its old value. A worker
that runs many threads updates a copy by ordinary instructions. It began with neutral elements. At
the end of its call the worker updates each element that was touched once. A kernel cannot rely on
an order of operations, so only the rounding of sums differs.

A kernel must not see that they are late. So it has no other use of the array, uses one kind of
operation, and nothing orders what others see. The launch decides whether the array is small and
shares no memory with another one. So each operation is written twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types

from kerneldsl.contract import Specialization
from kerneldsl.frontend.unit import IntrinsicUse
from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.operations import Function, Operation, Region, Value
from kerneldsl.language.intrinsics.intrinsic import Effect
from kerneldsl.language.kinds import ArrayKind, Kind, TupleKind
from kerneldsl.lowering.calls import Call
from kerneldsl.lowering.groups import combination_of
from targets.cpu.intrinsics.atomics import ATOMICS
from targets.cpu.regions.emitter import CountedLoop, CpuEmitter, write_apart
from targets.cpu.runtime.native_tables import LaunchWord

__all__ = ["gathering"]

_I64 = ir.IntType(64)
#: Elements of an array that are copied, at most.
_MOST_ELEMENTS = 1024
_OPERATIONS = frozenset({"add", "max", "min", "and_", "or_", "xor"})
_ELEMENTS = frozenset({"int32", "uint32", "int64", "uint64", "float32", "float64"})
_OF_SHAPES = frozenset({"array.size", "array.extent"})
#: The attribute of an operation that is gathered.
_MARK = "gathers"


def _mark_gathered(function: Function, region: Region, spec: Specialization) -> None:
    """Mark the operations of a kernel that can be gathered, in place."""
    if spec.options.debug or spec.traits.syncs_grid or any(map(_orders, spec.unit.all_uses())):
        return
    if any(isinstance(kind, TupleKind) for kind in spec.kinds):
        return  # with arrays that are compared with no others
    pairs = zip(function.body.arguments, spec.kinds, strict=True)
    arrays = {value for value, kind in pairs if _is_suitable(kind)}
    users: dict[Value, list[Operation]] = {array: [] for array in arrays}
    read = set()
    for operation in region.walk():
        read.update(operation.operands)
        for array in arrays.intersection(operation.operands):
            if operation.name not in _OF_SHAPES:
                users[array].append(operation)
    for found in users.values():
        if len({each.name for each in found}) == 1 and all(_waits(each, read) for each in found):
            for operation in found:
                operation.attributes[_MARK] = True


def _orders(use: IntrinsicUse) -> bool:
    """Return whether others may look for what was written before."""
    is_ordered = use.static.get("order", "relaxed") != "relaxed"
    return is_ordered or bool(use.intrinsic.effect & Effect.FENCE)


def _is_suitable(kind: Kind) -> bool:
    return isinstance(kind, ArrayKind) and kind.ndim > 0 and kind.element.name in _ELEMENTS


def _waits(operation: Operation, read: set[Value]) -> bool:
    """Return whether an operation updates an element, and nothing reads what it was before."""
    is_update = operation.name.removeprefix("atomic.") in _OPERATIONS
    return is_update and len(operation.operands) == 3 and read.isdisjoint(operation.results)


# -- emission -------------------------------------------------------------------------------------


class _Copy(NamedTuple):
    """The copy of one array."""

    array: Value
    #: One of the atomic operations on the array.
    operation: Operation
    own: ArrayParts
    is_used: ir.Value


@contextmanager
def gathering(emitter: CpuEmitter, function: Function, region: Region) -> Iterator[None]:
    """Return a context manager in which a region is written that has atomic operations.

    It begins with the code that makes the copies of a call, and ends with the code that performs
    the operations.
    """
    emitter.register(_HANDLERS)
    _mark_gathered(function, region, emitter.spec)
    marked = {each.operands[0]: each for each in region.walk() if _MARK in each.attributes}
    arrays = [each for each in function.body.arguments if isinstance(each.type, types.Array)]
    for array in arrays:
        if array in marked:
            others = [each for each in arrays if each is not array]
            emitter.gathered[array] = _begin(emitter, array, others, marked[array])
    yield
    _end(emitter)


def _begin(emitter: CpuEmitter, array: Value, others: list[Value], operation: Operation) -> _Copy:
    builder, context = emitter.builder, emitter.context
    parts, kind = emitter.get(array), types.Array(array.type.dtype, array.type.ndim, "C")
    memory = emitter.reserve(context.get_data_type(kind.dtype), _MOST_ELEMENTS)
    own = ArrayParts(memory, parts.shape, kind)
    size = _size(emitter, own)
    each = _I64(math.prod(emitter.spec.block_dim or (1,)))
    if emitter.spec.traits.uses_grid_only:
        each = emitter.word(LaunchWord.SPACE)
    threads = builder.mul(builder.sub(emitter.last, emitter.first), each)
    is_used = builder.icmp_signed("<=", size, emitter.smaller(_I64(_MOST_ELEMENTS), threads))
    for other in others:
        is_used = builder.and_(is_used, write_apart(emitter, array, other))
    nothing = identity(_short(operation), context, kind.dtype)
    with builder.if_then(is_used), CountedLoop(builder, _I64(0), size) as place:
        builder.store(nothing, builder.gep(memory, [place], inbounds=True))
    return _Copy(array, operation, own, is_used)


def _end(emitter: CpuEmitter) -> None:
    """Write what performs the operations of a call."""
    builder = emitter.builder
    for copy in emitter.gathered.values():
        with (
            builder.if_then(copy.is_used),
            CountedLoop(builder, _I64(0), _size(emitter, copy.own)) as place,
        ):
            value = builder.load(builder.gep(copy.own.data, [place], inbounds=True))
            with builder.if_then(_is_touched(emitter, copy, value)):
                _give(emitter, copy, place, value)


def _give(emitter: CpuEmitter, copy: _Copy, place: ir.Value, value: ir.Value) -> None:
    """Update an element of the array."""
    builder, ndim = emitter.builder, copy.array.type.ndim
    indices: list[ir.Value] = []
    for extent in copy.own.shape[:0:-1]:
        indices.insert(0, builder.urem(place, extent))
        place = builder.udiv(place, extent)
    indices.insert(0, place)
    kind: Any = types.uint64 if ndim == 1 else types.UniTuple(types.uint64, ndim)
    index = indices[0] if ndim == 1 else emitter.context.make_tuple(builder, kind, indices)
    signature = copy.operation.attributes["signature"]
    signature = signature.replace(args=(copy.array.type, kind, signature.args[2]))
    array = emitter.plain(emitter.get(copy.array), copy.array.type)
    perform, _ = ATOMICS[copy.operation.name]
    perform(
        Call(emitter.context, builder, signature, (array, index, value), _static(copy.operation))
    )


def _update(emitter: CpuEmitter, operation: Operation) -> None:
    """Write an operation; one that is gathered twice, on the copy if that is used."""
    copy = emitter.gathered.get(operation.operands[0])
    if copy is None or _MARK not in operation.attributes:
        emitter.intrinsic(operation)
        return
    builder = emitter.builder
    array, *others = operation.operands
    signature = operation.attributes["signature"]
    kinds = signature.args[1:]
    values = [emitter.converted(*pair) for pair in zip(others, kinds, strict=True)]
    whole = emitter.plain(emitter.get(array), array.type)
    perform, perform_alone = ATOMICS[operation.name]
    with builder.if_else(copy.is_used) as (gathered, at_once):
        with gathered:
            own = copy.own.structure(emitter.context, builder)
            of_own = signature.replace(args=(copy.own.kind, *kinds))
            perform_alone(
                Call(emitter.context, builder, of_own, (own, *values), _static(operation))
            )
        with at_once:
            perform(Call(emitter.context, builder, signature, (whole, *values), _static(operation)))


def _size(emitter: CpuEmitter, parts: ArrayParts) -> ir.Value:
    size, *others = parts.shape
    for extent in others:
        size = emitter.builder.mul(size, extent)
    return size


def _short(operation: Operation) -> str:
    return operation.name.removeprefix("atomic.")


def _static(operation: Operation) -> Any:
    return operation.attributes["use"].static


_HANDLERS = {f"atomic.{short}": _update for short in sorted(_OPERATIONS)}


# -- elements of copies ---------------------------------------------------------------------------


def identity(short: str, context: Any, dtype: Any) -> ir.Constant:
    """Return what an element is combined with and stays as it is."""
    found = combination_of(short, context, dtype)
    return found.value_type(-1) if short == "and_" else found.neutral  # also of "or_" and "xor"


def _is_touched(emitter: CpuEmitter, copy: _Copy, value: ir.Value) -> ir.Value:
    """Return whether an element is not what it began as."""
    builder, short, dtype = emitter.builder, _short(copy.operation), copy.array.type.dtype
    first = identity(short, emitter.context, dtype)
    if not isinstance(dtype, types.Float):
        return builder.icmp_signed("!=", value, first)
    if short != "add":
        return builder.fcmp_ordered("ord", value, value)
    bits = ir.IntType(dtype.bitwidth)
    one, two = (builder.bitcast(each, bits) for each in (value, first))
    return builder.icmp_signed("!=", one, two)
