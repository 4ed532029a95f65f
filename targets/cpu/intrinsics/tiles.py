"""Operations on two elements of a tile, as generated code calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from llvmlite.ir import instructions
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.lowering.groups import Combination, combination_of
from kerneldsl.lowering.numba_internals.arrays import make_array
from kerneldsl.lowering.tile_folds import COMBINATIONS, Combine
from kerneldsl.lowering.tile_places import tile_place
from kerneldsl.lowering.tile_sorts import key_type, number_of, sort_key
from kerneldsl.lowering.types import element_type
from targets.cpu.intrinsics.groups.buffer import I64, WIDTHS
from targets.cpu.intrinsics.groups.combine import fold_neighbours, scan_vector
from targets.cpu.passes.ids import WARP_SIZE

__all__ = [
    "FOLDS",
    "MEETINGS",
    "SORTED_NUMBERS",
    "loaded",
    "scan_lanes",
    "sort_key_of",
    "tile_place_of",
]

#: Combines two values or two vectors of them.
_Combined: TypeAlias = Callable[[ir.Value, ir.Value], ir.Value]


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


def _meeting(combine: Combine) -> Callable[..., Any]:
    @intrinsic(prefer_literal=True)
    def call(typingctx: Any, values: Any, start: Any, count: Any) -> Any:
        kind = values.dtype

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            data = make_array(values)(context, builder, args[0]).data
            first = builder.gep(data, [args[1]], inbounds=True)

            def combined(one: ir.Value, two: ir.Value) -> ir.Value:
                return combine(context, builder, kind, one, two)

            stored = first.type.pointee
            number = count.literal_value
            is_vector = stored == context.get_value_type(kind) and isinstance(
                stored, ir.IntType | ir.FloatType | ir.DoubleType
            )
            if is_vector and number & (number - 1) == 0:
                return _meet_as_vector(builder, combined, first, number)
            model = context.data_model_manager[kind]
            return _meet_in_place(builder, model, combined, first, number)

        return kind(values, start, count), generate

    return call  # type: ignore[no-any-return]


def _meet_as_vector(
    builder: ir.IRBuilder, combined: _Combined, first: ir.Value, count: int
) -> ir.Value:
    kind = ir.VectorType(first.type.pointee, count)
    vector = builder.load(builder.bitcast(first, kind.as_pointer()), align=1)
    return fold_neighbours(builder, vector, combined)


def _meet_in_place(
    builder: ir.IRBuilder, model: Any, combined: _Combined, first: ir.Value, count: int
) -> ir.Value:
    """Combine neighbours, level by level; who has none waits for the next level."""

    def place(index: ir.Value) -> ir.Value:
        return builder.gep(first, [index], inbounds=True)

    def read(index: ir.Value) -> ir.Value:
        return model.from_data(builder, builder.load(place(index)))

    while count > 1:
        with cgutils.for_range(builder, I64(count // 2)) as loop:
            even = builder.shl(loop.index, I64(1))
            met = combined(read(even), read(builder.or_(even, I64(1))))
            builder.store(model.as_data(builder, met), place(loop.index))
        if count % 2:
            builder.store(builder.load(place(I64(count - 1))), place(I64(count // 2)))
        count = (count + 1) // 2
    return read(I64(0))


#: Name of a combination to what combines as many neighbours of an array as a warp has.
MEETINGS: dict[str, Callable[..., Any]] = {
    name: _meeting(combine) for name, combine in COMBINATIONS.items()
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
def loaded(typingctx: Any, value: Any) -> Any:
    """Return an element that a loop copies, so that LLVM makes vectors of it, and no ``memcpy``.

    Rows of some KiB are copied by one instruction there, which waits for memory alone. What comes
    before and after a loop of vectors runs meanwhile.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        (element,) = args
        if not isinstance(element.type, ir.IntType | ir.FloatType | ir.DoubleType):
            return element
        frozen = instructions.Instruction(builder.block, element.type, "freeze", [element])
        builder._insert(frozen)
        return frozen

    return value(value), generate


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
