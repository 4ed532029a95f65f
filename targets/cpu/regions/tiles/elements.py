"""Tiles of an expression's elements, of elements by their places, and copies of tiles."""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.tile_places import tile_place
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_copy", "write_map", "write_take"]

_I64 = ir.IntType(64)


def write_map(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of an expression's elements."""
    code = TileCode(emitter, operation)
    target = code.elements(operation.operands[0])
    if operation.attributes.get("is_guarded"):
        _write_guarded(code, target)
    else:
        code.each(lambda index, places: target.set(index, code.element(index, places)))


def _write_guarded(code: TileCode, target: Elements) -> None:
    """Write elements of what is inside bounds: without a test if the first and last one are."""
    emitter, builder, region = code.emitter, code.builder, code.operation.regions[0]
    *before, branch, _ = region.operations
    axes = code.operation.attributes["axes"]

    def test(places: Sequence[ir.Value]) -> ir.Value:
        given = (places[axis] for axis in axes)
        emitter.values.update(zip(region.arguments, given, strict=True))
        emitter.operations(before)
        return emitter.get(branch.operands[0])

    def inside(index: ir.Value, places: Sequence[ir.Value]) -> None:
        test(places)
        target.set(index, code.region(branch.regions[0]))

    first = test([_I64(0) for _ in code.shape])
    last = test([_I64(extent - 1) for extent in code.shape])
    with builder.if_else(builder.and_(first, last)) as (whole, part):
        with whole:
            code.each(inside)
        with part:
            code.each(lambda index, places: target.set(index, code.element(index, places)))


def write_take(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of elements by their places in the rows of another tile."""
    code, builder = TileCode(emitter, operation), emitter.builder
    target, source = map(code.elements, operation.operands[:2])
    kind = operation.regions[0].yielded[0].type
    extent = operation.attributes["extent"]

    def write(index: ir.Value, places: Sequence[ir.Value]) -> None:
        wanted = tile_place(builder, kind, code.element(index, places))
        place = emitter.smaller(emitter.larger(_I64(0), wanted), _I64(extent - 1))
        if len(code.shape) > 1:
            row = places[0] if places else builder.udiv(index, _I64(code.shape[1]))
            place = builder.add(builder.mul(row, _I64(extent)), place)
        target.set(index, source.get(place))

    code.each(write)


def write_copy(emitter: CpuEmitter, operation: Operation) -> None:
    """Copy tiles to the memory in which a branch or loop hands them on."""
    code = TileCode(emitter, operation)
    half = len(operation.operands) // 2
    sources, targets = operation.operands[:half], operation.operands[half:]
    counts = [each.owner.attributes["shape"][0] for each in targets]  # type: ignore[union-attr]
    given = [code.elements(each) for each in sources]
    if set(sources) & set(targets):
        given = [_copied(code, *each) for each in zip(given, counts, strict=True)]
    for source, target, count in zip(given, map(code.elements, targets), counts, strict=True):
        with code.loop(0, count) as index:
            target.set(index, source.get(index))


def _copied(code: TileCode, source: Elements, count: int) -> Elements:
    """Return a copy of elements."""
    copy = code.buffer(source.kind, count)
    with code.loop(0, count) as index:
        copy.set(index, source.get(index))
    return copy
