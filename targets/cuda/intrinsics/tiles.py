"""Operations of tiles on elements, in registers: conversions, bounds, comparisons of sorting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import errors, types

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Typing
from kerneldsl.language.intrinsics.table import INTRINSICS
from kerneldsl.lowering.calls import Call, Emitter
from kerneldsl.lowering.groups import combination_of
from kerneldsl.lowering.numba_internals.arrays import make_array
from kerneldsl.lowering.numba_internals.bound import BoundIntrinsic
from kerneldsl.lowering.tile_folds import COMBINATIONS, Combine
from kerneldsl.lowering.tile_places import tile_place
from kerneldsl.lowering.tile_plan import TilePlan
from kerneldsl.lowering.tile_sorts import key_type, number_of, sort_key
from kerneldsl.lowering.types import element_type
from targets.cuda.compile.sort_networks import MAX_CHUNK_BITS, merge_pairs, sort_pairs
from targets.cuda.intrinsics.tile_folds import fold_operations
from targets.cuda.intrinsics.tile_memory import memory_operations
from targets.cuda.intrinsics.unroll import UNROLL, UNROLL_NAME

__all__ = ["EMITTERS", "tile_operations"]

_i64 = ir.IntType(64)


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


def _place_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.int64(types.unliteral(args[0]))


def _place(call: Call) -> ir.Value:
    return tile_place(call.builder, call.signature.args[0], call.args[0])


_COMBINING = {f"kd_fold_{name}": _combination(name, each) for name, each in COMBINATIONS.items()}
_PLACE = BoundIntrinsic("tile.place", _place_rule, _place, {})


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
        "kd_min": min,
        "kd_max": max,
        "kd_complex": complex,
        **_COMBINING,
        **memory_operations(plan.moved),
        **fold_operations(plan),
        UNROLL_NAME: UNROLL,
        "kd_place": _PLACE,
        **_SORTING,
    }
    for name, row in ELEMENT_TYPES.items():
        if name in plan.all_dtypes or (row.package == "numpy" and not row.is_narrow):
            found[f"kd_as_{name}"] = bool if name == "bool" else element_type(name)
    return found


def _key_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    kind = types.unliteral(args[0])
    if not isinstance(kind, types.Integer | types.Float):
        raise errors.TypingError(f"tile.sort: elements cannot be {kind}")
    return key_type(kind)(kind)


def _key(call: Call) -> ir.Value:
    return sort_key(call.builder, call.signature.args[0], call.args[0])


def _number_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    kind = element_type(static["dtype"])
    return kind(key_type(kind))


def _number(call: Call) -> ir.Value:
    return number_of(call.context, call.builder, call.signature.return_type, call.args[0])


def _pairs_rule(args: tuple[Any, ...], static: Mapping[str, Any]) -> Any:
    return types.none(args[0])


def _order_pairs(call: Call) -> ir.Value:
    """Put the smaller of each pair of an array's elements first."""
    builder, context, kind = call.builder, call.context, call.signature.args[0]
    data = make_array(kind)(context, builder, call.args[0]).data
    pairs = call.static["pairs"]
    places = {place: builder.gep(data, [_i64(place)]) for pair in pairs for place in pair}
    values = {place: builder.load(pointer) for place, pointer in places.items()}
    lesser, greater = (combination_of(name, context, kind.dtype) for name in ("min", "max"))
    for low, high in pairs:
        one, two = values[low], values[high]
        values[low], values[high] = (each.combine(builder, one, two) for each in (lesser, greater))
    for place, pointer in places.items():
        builder.store(values[place], pointer)
    return context.get_dummy_value()


def _pairs(pairs: list[tuple[int, int]]) -> BoundIntrinsic:
    return BoundIntrinsic("tile.sort", _pairs_rule, _order_pairs, {"pairs": tuple(pairs)})


_COUNTS = [1 << bits for bits in range(1, MAX_CHUNK_BITS + 1)]

#: What the statements of a sort call, by name.
_SORTING: dict[str, BoundIntrinsic] = {
    "kd_sort_key": BoundIntrinsic("tile.sort", _key_rule, _key, {}),
    **{
        f"kd_sort_number_{name}": BoundIntrinsic(
            "tile.sort", _number_rule, _number, {"dtype": name}
        )
        for name, row in ELEMENT_TYPES.items()
        if row.is_integer or row.is_float
    },
    **{f"kd_sort_{count}": _pairs(sort_pairs(count)) for count in _COUNTS},
    **{
        f"kd_merge_{count}_{bit}": _pairs(merge_pairs(count, bit))
        for count in _COUNTS
        for bit in range(count.bit_length() - 1)
    },
}
