"""Perform what the elements of tiles need beside the language's own operations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.loop_marks import FULLY_UNROLLED, mark_loop
from kerneldsl.lowering.numba_internals.arrays import make_array
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.tile_folds import COMBINATIONS, Combine
from kerneldsl.lowering.tile_places import tile_place
from kerneldsl.lowering.tile_plan import TilePlan
from kerneldsl.lowering.types import element_type
from targets.cuda.intrinsics.tile_sorts import SORTING

__all__ = ["EMITTERS", "tile_operations"]

_i1 = ir.IntType(1)
_i64 = ir.IntType(64)
#: Most bytes that one instruction loads or stores.
_MAX_BYTES = 16
#: Types in memory that vectors are made of.
_SCALAR = (ir.IntType, ir.FloatType, ir.DoubleType, ir.HalfType)


def _combination(name: str, combine: Combine) -> BoundIntrinsic:
    def rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
        one, two = map(types.unliteral, args)
        if one != two:
            raise errors.TypingError(f"tile.{name}: {one} and {two} are combined")
        return one(one, two)

    def emit(call: Call) -> ir.Value:
        kind = call.signature.return_type
        return combine(call.context, call.builder, kind, *call.args)

    return BoundIntrinsic(f"tile.{name}", rule, emit, {})


def _unroll_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.none()


def _unroll(call: Call) -> ir.Value:
    mark_loop(call.builder, FULLY_UNROLLED)
    return call.context.get_dummy_value()


def _place_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.int64(types.unliteral(args[0]))


def _place(call: Call) -> ir.Value:
    return tile_place(call.builder, call.signature.args[0], call.args[0])


def _wide_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.boolean(args[0], types.int64, types.int64, types.int64)


def _is_wide(call: Call) -> ir.Value:
    """Say whether ``(array, first, count, group)`` can be accessed in groups of neighbours."""
    builder, context = call.builder, call.context
    kind = call.signature.args[0]
    if kind.layout != "C" or kind.ndim != 1 or isinstance(kind.dtype, types.Complex):
        return _i1(0)
    array = make_array(kind)(context, builder, call.args[0])
    _, first, count, group = call.args
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    (extent,) = _members(builder, array.shape, 1)
    end = builder.add(first, count)
    inside = builder.and_(
        builder.icmp_signed(">=", first, _i64(0)), builder.icmp_signed("<=", end, extent)
    )
    place = builder.ptrtoint(builder.gep(array.data, [first]), _i64)
    mask = builder.sub(builder.mul(group, _i64(size)), _i64(1))
    aligned = builder.icmp_unsigned("==", builder.and_(place, mask), _i64(0))
    return builder.and_(inside, aligned)


def _members(builder: ir.IRBuilder, packed: ir.Value, count: int) -> list[ir.Value]:
    return [builder.extract_value(packed, i) for i in range(count)]


def _transfer_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.none(args[0], types.int64, args[2], types.int64)


def _transfer(call: Call) -> ir.Value:
    """Copy ``(target, place, source, place)`` neighbours by wide instructions."""
    builder, context, group = call.builder, call.context, call.static["group"]
    kinds = call.signature.args[0], call.signature.args[2]
    target, source = (
        make_array(kind)(context, builder, value).data
        for kind, value in zip(kinds, (call.args[0], call.args[2]), strict=True)
    )
    stored = [context.get_data_type(kind.dtype) for kind in kinds]
    models = [context.data_model_manager[kind.dtype] for kind in kinds]
    sizes = [context.get_abi_sizeof(kind) for kind in stored]
    lanes = [_lanes(kind) for kind in stored]
    if not all(isinstance(lane, _SCALAR) for lane in stored):
        for i in range(group):  # of a complex number nobody asks for it
            place = builder.gep(source, [builder.add(call.args[3], _i64(i))])
            given = models[1].from_data(builder, builder.load(place))
            cast = context.cast(builder, given, kinds[1].dtype, kinds[0].dtype)
            where = builder.gep(target, [builder.add(call.args[1], _i64(i))])
            builder.store(models[0].as_data(builder, cast), where)
        return context.get_dummy_value()
    taken: list[ir.Value] = []
    width = min(group, max(1, _MAX_BYTES // sizes[1]))
    for start in range(0, group, width):
        place = builder.gep(source, [builder.add(call.args[3], _i64(start))])
        vector = ir.VectorType(lanes[1], width)
        loaded = builder.load(builder.bitcast(place, vector.as_pointer()))
        loaded.align = width * sizes[1]
        taken += [builder.extract_element(loaded, ir.IntType(32)(i)) for i in range(width)]
    values = []
    for value in taken:
        given = models[1].from_data(builder, builder.bitcast(value, stored[1]))
        cast = context.cast(builder, given, kinds[1].dtype, kinds[0].dtype)
        values.append(builder.bitcast(models[0].as_data(builder, cast), lanes[0]))
    width = min(group, max(1, _MAX_BYTES // sizes[0]))
    for start in range(0, group, width):
        vector = ir.VectorType(lanes[0], width)
        whole: ir.Value = ir.Constant(vector, ir.Undefined)
        for i in range(width):
            whole = builder.insert_element(whole, values[start + i], ir.IntType(32)(i))
        place = builder.gep(target, [builder.add(call.args[1], _i64(start))])
        saved = builder.store(whole, builder.bitcast(place, vector.as_pointer()))
        saved.align = width * sizes[0]
    return context.get_dummy_value()


def _lanes(kind: ir.Type) -> ir.Type:
    """Return the type of a vector's elements for a type in memory."""
    return ir.IntType(16) if isinstance(kind, ir.HalfType) else kind


_COMBINING = {f"kd_fold_{name}": _combination(name, each) for name, each in COMBINATIONS.items()}
_UNROLL = BoundIntrinsic("tile.unroll", _unroll_rule, _unroll, {})
_IS_WIDE = BoundIntrinsic("tile.is_wide", _wide_rule, _is_wide, {})
_PLACE = BoundIntrinsic("tile.place", _place_rule, _place, {})
_TRANSFERS = {
    f"kd_transfer_{group}": BoundIntrinsic(
        "tile.transfer", _transfer_rule, _transfer, {"group": group}
    )
    for group in (2, 4)
}


def _refuse(call: Call) -> ir.Value:
    raise AssertionError("tiles are spread over threads before a kernel is lowered")


#: Of the language's operations on tiles.
EMITTERS: dict[str, Emitter] = {
    name: _refuse for name, row in INTRINSICS.items() if row.typing is Typing.TILE
}


def tile_operations(plan: TilePlan) -> dict[str, Any]:
    """Return what the statements of a kernel's tile operations call, by name."""
    found: dict[str, Any] = {
        "kd_range": range,
        "kd_complex": complex,
        **_COMBINING,
        **_TRANSFERS,
        "kd_unroll": _UNROLL,
        "kd_is_wide": _IS_WIDE,
        "kd_place": _PLACE,
        **SORTING,
    }
    for name, row in ELEMENT_TYPES.items():
        if name in plan.all_dtypes or (row.package == "numpy" and not row.is_narrow):
            found[f"kd_as_{name}"] = bool if name == "bool" else element_type(name)
    return found
