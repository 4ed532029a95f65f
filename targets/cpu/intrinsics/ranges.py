"""Ranges of generated code, their saturating bounds, and items of a range by their number.

The loops over threads have step 1. Numba's range has any: it divides, and raises where the step is
0, in eight basic blocks and six stack slots that LLVM takes away again, of hundreds of loops.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model

__all__ = ["counting_range", "range_item", "saturating_add", "saturating_sub"]


def _saturating(name: str) -> Any:
    """Lower to one of LLVM's saturating operations.

    References
    ----------
    LLVM Language Reference, "Saturation Arithmetic Intrinsics".
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_I64, [_I64, _I64])
        operation = builder.module.declare_intrinsic(f"llvm.{name}", [_I64], kind)
        return builder.call(operation, args)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def saturating_add(typingctx: Any, left: Any, right: Any) -> Any:
    """Add int64, and stop at its ends."""
    return _saturating("sadd.sat")


@intrinsic
def saturating_sub(typingctx: Any, left: Any, right: Any) -> Any:
    """Subtract int64, and stop at its ends."""
    return _saturating("ssub.sat")


_I64 = ir.IntType(64)


class _Counting(types.SimpleIteratorType):
    """Iterator over consecutive int64: the address of the next one and of how many there are."""

    def __init__(self) -> None:
        super().__init__("counting", types.int64)


_COUNTING = _Counting()


class _CountingRange(types.SimpleIterableType):
    """Consecutive int64; its value is that of its iterator, which it has once."""

    def __init__(self) -> None:
        super().__init__("counting_range", _COUNTING)


_COUNTING_RANGE = _CountingRange()


class _StateModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.LiteralStructType([_I64, _I64]).as_pointer())


register_model(_Counting)(_StateModel)
register_model(_CountingRange)(_StateModel)


@intrinsic
def counting_range(typingctx: Any, *bounds: Any) -> Any:
    """Return ``range(*bounds)`` for one loop."""
    plain = tuple(types.unliteral(bound) for bound in bounds)
    if len(plain) < 3 and set(plain) == {types.int64}:
        return _COUNTING_RANGE(types.StarArgTuple(plain)), _begin
    found = typingctx.resolve_function_type(range, plain, {})
    if found is None:
        return None

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        members = [
            context.cast(builder, member, bound, taken)
            for member, bound, taken in zip(
                cgutils.unpack_tuple(builder, args[0], len(plain)), plain, found.args, strict=True
            )
        ]
        return context.get_function(range, found)(builder, members)

    return found.return_type(types.StarArgTuple(plain)), generate


def _begin(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    members = cgutils.unpack_tuple(builder, args[0], len(signature.args[0]))
    start, stop = members if len(members) == 2 else (_I64(0), members[0])
    # In the entry block: Numba's loops are in loops.
    state = cgutils.alloca_once(builder, context.get_value_type(_COUNTING).pointee)
    count = builder.sub(stop, start)
    count = builder.select(builder.icmp_signed(">", stop, start), count, _I64(0))
    builder.store(start, cgutils.gep_inbounds(builder, state, 0, 0))
    builder.store(count, cgutils.gep_inbounds(builder, state, 0, 1))
    return state


@lower_builtin("getiter", _CountingRange)
def _iterator(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return args[0]


@lower_builtin("iternext", _Counting)
def _next(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    item_at, count_at = (cgutils.gep_inbounds(builder, args[0], 0, n) for n in range(2))
    item, count = builder.load(item_at), builder.load(count_at)
    builder.store(builder.add(item, _I64(1)), item_at)
    builder.store(builder.sub(count, _I64(1), flags=["nsw"]), count_at)
    pair = ir.Constant(context.get_value_type(signature.return_type), ir.Undefined)
    pair = builder.insert_value(pair, item, 0)
    return builder.insert_value(pair, builder.icmp_signed(">", count, _I64(0)), 1)


@intrinsic
def range_item(typingctx: Any, number: Any, *bounds: Any) -> Any:
    """Return the item of ``range(*bounds)`` with a number, in the type that the range has."""
    plain = tuple(types.unliteral(bound) for bound in bounds)
    found = typingctx.resolve_function_type(range, plain, {})
    if found is None:
        return None
    kind = found.return_type.dtype

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        members = cgutils.unpack_tuple(builder, args[1], len(plain))
        parts = [
            context.cast(builder, member, bound, kind)
            for member, bound in zip(members, plain, strict=True)
        ]
        item = context.cast(builder, args[0], types.int64, kind)
        if len(parts) == 3:
            item = builder.mul(item, parts[2])
        return builder.add(item, parts[0]) if len(parts) > 1 else item

    return kind(types.int64, types.StarArgTuple(plain)), generate
