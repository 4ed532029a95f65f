"""Operations on two elements of a tile, as generated code calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.lowering.groups import Combination, combination_of
from kerneldsl.lowering.numba_internals.arrays import make_array
from kerneldsl.lowering.tile_folds import COMBINATIONS, Combine
from kerneldsl.lowering.tile_places import tile_place
from kerneldsl.lowering.tile_sorts import key_type, number_of, sort_key
from kerneldsl.lowering.types import element_type
from targets.cpu.ids import WARP_SIZE
from targets.cpu.intrinsics.groups.combine import scan_vector
from targets.cpu.intrinsics.groups.room import I64, WIDTHS

__all__ = ["FOLDS", "SORTED_NUMBERS", "scan_lanes", "sort_key_of", "tile_place_of"]


def _operation(combine: Combine) -> Callable[..., Any]:
    @intrinsic
    def call(typingctx: Any, one: Any, two: Any) -> Any:
        if one != two:
            return None

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return combine(context, builder, one, *args)

        return one(one, two), generate

    return call  # type: ignore[no-any-return]


#: Name of a combination to what generated code calls.
FOLDS: dict[str, Callable[..., Any]] = {
    name: _operation(combine) for name, combine in COMBINATIONS.items()
}


@intrinsic
def scan_lanes(typingctx: Any, sums: Any) -> Any:
    """Add to each of as many elements as a warp has lanes, from place 1 on, those before it."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = combination_of("sum", context, sums.dtype)
        data = make_array(sums)(context, builder, args[0]).data
        first = builder.gep(data, [I64(1)])
        if found.is_vectorizable:
            place = builder.bitcast(first, ir.VectorType(found.value_type, WARP_SIZE).as_pointer())
            scan_vector(builder, found, place, builder.load(place, align=1))
        else:
            _scan_each(builder, found, first)
        return context.get_dummy_value()

    return types.none(sums), generate


def _scan_each(builder: ir.IRBuilder, found: Combination, first: ir.Value) -> None:
    """Scan as a vector is scanned, element by element."""
    places = [builder.gep(first, [I64(lane)]) for lane in range(WARP_SIZE)]
    model = found.context.data_model_manager[found.kind]
    values = [model.load_from_data_pointer(builder, place) for place in places]
    for width in WIDTHS:
        for lane in range(WARP_SIZE):
            if lane & width:
                before = values[lane & -2 * width | width - 1]
                values[lane] = found.combine(builder, before, values[lane])
    for place, value in zip(places, values, strict=True):
        builder.store(model.as_data(builder, value), place)


@intrinsic
def tile_place_of(typingctx: Any, at: Any) -> Any:
    """Return the index of a tile's first element as an int64 that arithmetic does not wrap."""
    kind = types.unliteral(at)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return tile_place(builder, kind, *args)

    return types.int64(kind), generate


@intrinsic
def sort_key_of(typingctx: Any, value: Any) -> Any:
    """Return the integer by which a number is sorted."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return sort_key(builder, value, args[0])

    return key_type(value)(value), generate


def _sorted_number(dtype: str) -> Callable[..., Any]:
    kind = element_type(dtype)

    @intrinsic
    def number(typingctx: Any, key: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return number_of(context, builder, kind, args[0])

        return kind(key_type(kind)), generate

    return number  # type: ignore[no-any-return]


#: dtype to what gives the number of such an integer.
SORTED_NUMBERS: dict[str, Callable[..., Any]] = {
    name: _sorted_number(name)
    for name, row in ELEMENT_TYPES.items()
    if row.is_integer or row.is_float
}
