"""Tiles: arrays of the block."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from llvmlite.ir import instructions
from numba import types

from kerneldsl.ir.array_parts import ArrayParts
from kerneldsl.ir.frontend.reader import NotReadError
from kerneldsl.ir.operations import Operation, Value
from kerneldsl.lowering.loop_marks import NOT_UNROLLED, PARALLEL
from kerneldsl.lowering.tile_folds import COMBINATIONS
from kerneldsl.lowering.tile_places import tile_place
from kerneldsl.lowering.tile_plan import Layout
from targets.cpu.intrinsics.groups.combine import fold_neighbours
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.loops import CountedLoop

__all__ = ["HANDLERS"]

_I64 = ir.IntType(64)


def _tile(emitter: CpuEmitter, dtype: Any, count: int) -> ArrayParts:
    data = emitter.reserve(emitter.context.get_data_type(dtype), count)
    return ArrayParts(data, [_I64(count)], types.Array(dtype, 1, "C"))


def _count(emitter: CpuEmitter, operation: Operation) -> int:
    (count,) = operation.attributes["shape"]
    return int(count)


def _place(emitter: CpuEmitter, value: Value) -> ir.Value:
    found = emitter.get(value)
    if isinstance(found, ir.Constant):
        return found
    return tile_place(emitter.builder, value.type, found)


def _inside(emitter: CpuEmitter, count: int, first: Any, extent: Any) -> tuple[Any, Any]:
    """Return the places of a tile that are inside an array, from one to another."""
    end = _I64(count)
    if isinstance(first, ir.Constant) and first.constant == 0:
        return _I64(0), emitter.smaller(extent, end)  # an extent is not negative
    low = emitter.smaller(emitter.larger(_I64(0), emitter.builder.neg(first)), end)
    high = emitter.larger(low, emitter.smaller(emitter.builder.sub(extent, first), end))
    return low, high


def _load(emitter: CpuEmitter, operation: Operation) -> None:
    array, other, at = operation.operands
    builder, count = emitter.builder, _count(emitter, operation)
    kind = operation.result.type.dtype
    tile = _tile(emitter, kind, count)
    source, first, rest = emitter.get(array), _place(emitter, at), emitter.get(other)
    model = emitter.context.data_model_manager[kind]
    rest = model.as_data(builder, rest)
    low, high = _inside(emitter, count, first, source.shape[0])
    if not isinstance(low, ir.Constant):
        with CountedLoop(builder, _I64(0), low, NOT_UNROLLED, PARALLEL) as place:
            emitter.write(rest, builder.gep(tile.data, [place]))
    with CountedLoop(builder, low, high, NOT_UNROLLED, PARALLEL) as place:
        loaded = emitter.read(builder.gep(source.data, [builder.add(first, place)]))
        if isinstance(loaded.type, ir.IntType | ir.FloatType | ir.DoubleType):
            frozen = instructions.Instruction(builder.block, loaded.type, "freeze", [loaded])
            builder._insert(frozen)
            loaded = frozen
        value = emitter.context.data_model_manager[array.type.dtype].from_data(builder, loaded)
        value = emitter.convert(value, array.type.dtype, kind)
        emitter.write(model.as_data(builder, value), builder.gep(tile.data, [place]))
    with CountedLoop(builder, high, _I64(count), NOT_UNROLLED, PARALLEL) as place:
        emitter.write(rest, builder.gep(tile.data, [place]))
    emitter.set(operation, tile)


def _each(emitter: CpuEmitter, operation: Operation, tiles: list[Value], place: Any) -> Any:
    """Write the region of a tile operation for one element."""
    region = operation.regions[0]
    for tile, argument in zip(tiles, region.arguments, strict=True):
        stored = emitter.read(emitter.builder.gep(emitter.get(tile).data, [place]))
        model = emitter.context.data_model_manager[argument.type]
        emitter.values[argument] = model.from_data(emitter.builder, stored)
    (found,) = emitter.region(region)
    return found


def _all(emitter: CpuEmitter, operation: Operation, tiles: list[Value], dtype: Any) -> ArrayParts:
    """Return a tile of all elements of an expression."""
    region = operation.regions[0]
    if len(region.operations) == 1 and region.yielded == region.arguments:
        found: ArrayParts = emitter.get(tiles[0])
        return found
    count = _count(emitter, operation)
    tile = _tile(emitter, dtype, count)
    model = emitter.context.data_model_manager[dtype]
    with CountedLoop(emitter.builder, _I64(0), _I64(count), NOT_UNROLLED, PARALLEL) as place:
        value = _each(emitter, operation, tiles, place)
        emitter.write(
            model.as_data(emitter.builder, value), emitter.builder.gep(tile.data, [place])
        )
    return tile


def _map(emitter: CpuEmitter, operation: Operation) -> None:
    dtype = operation.result.type.dtype
    emitter.set(operation, _all(emitter, operation, operation.operands, dtype))


def _fold(emitter: CpuEmitter, operation: Operation) -> None:
    """Combine elements in the order of :mod:`kerneldsl.lowering.tile_plan`."""
    builder, kind = emitter.builder, operation.result.type
    count = _count(emitter, operation)
    layout = Layout(count, emitter.threads_count)
    places = min(layout.places, count)
    warp = 32 * layout.group
    if places != count or places % warp:
        raise NotReadError("a fold of several rounds")
    tile = _all(emitter, operation, operation.operands, kind)
    combine = COMBINATIONS[operation.attributes["fold"]]

    def combined(one: Any, two: Any) -> Any:
        return combine(emitter.context, builder, kind, one, two)

    def met(start: Any) -> Any:
        vector = ir.VectorType(tile.data.type.pointee, warp)
        place = builder.bitcast(builder.gep(tile.data, [start]), vector.as_pointer())
        return fold_neighbours(builder, builder.load(place, align=1), combined)

    total = met(_I64(0))
    if places > warp:
        entry = builder.block
        with CountedLoop(builder, _I64(warp), _I64(places), step=warp) as start:
            phi = builder.phi(total.type, "total")
            phi.add_incoming(total, entry)
            last = combined(phi, met(start))
            phi.add_incoming(last, builder.block)
        total = last
    emitter.set(operation, total)


def _store(emitter: CpuEmitter, operation: Operation) -> None:
    array, at, *tiles = operation.operands
    builder, target, first = emitter.builder, emitter.get(array), _place(emitter, at)
    low, high = _inside(emitter, _count(emitter, operation), first, target.shape[0])
    model = emitter.context.data_model_manager[array.type.dtype]
    with CountedLoop(builder, low, high, NOT_UNROLLED, PARALLEL) as place:
        value = _each(emitter, operation, tiles, place)
        index = builder.add(first, place)
        emitter.write(model.as_data(builder, value), builder.gep(target.data, [index]))


HANDLERS = {"tile.load": _load, "tile.map": _map, "tile.fold": _fold, "tile.store": _store}
