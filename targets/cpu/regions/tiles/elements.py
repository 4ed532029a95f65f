"""Tiles of an expression's elements, of elements by their places, and copies of tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Region
from kerneldsl.ir.tiles.elements import write_region, write_take
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.unpacking import begins_at_a_byte, packed_load, write_unpacked
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_copy", "write_map", "write_taken"]

_I64 = ir.IntType(64)


def write_map(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of an expression's elements."""
    code = TileCode(emitter, operation)
    target = code.tile(operation.operands[0])
    if operation.attributes.get("is_guarded"):
        _write_guarded(code, target)
    else:
        with code.elements() as (slot, value):
            target.put(slot, value)


def _write_guarded(code: TileCode, target: Elements) -> None:
    """Write elements of what is inside bounds: without a test if the first and last one are."""
    emitter, builder, region = code.emitter, code.builder, code.operation.regions[0]
    *before, branch, _ = region.operations
    axes = code.operation.attributes["axes"]

    def test(indices: Sequence[ir.Value]) -> ir.Value:
        given = (indices[axis] for axis in axes)
        emitter.values.update(zip(region.arguments, given, strict=True))
        emitter.operations(before)
        return emitter.get(branch.operands[0])

    first = test([_I64(0) for _ in code.shape])
    last = test([_I64(extent - 1) for extent in code.shape])
    with builder.if_else(builder.and_(first, last)) as (whole, part):
        with whole:
            _write_inside(code, target, branch.regions[0], test)
        with part, code.elements() as (slot, value):
            target.put(slot, value)


def _write_inside(
    code: TileCode, target: Elements, region: Region, place: Callable[[Sequence[ir.Value]], object]
) -> None:
    """Write elements of a region; `place` writes what the region needs of an element's indices."""

    def each() -> None:
        with code.slots() as slot:
            place(code.indices(slot))
            target.put(slot, write_region(code.emitter, region))

    load = packed_load(code, target, region)
    if load is None:
        each()
        return
    place([_I64(0) for _ in code.shape])
    test = begins_at_a_byte(code.emitter, load)
    with code.builder.if_else(test) as (fast, slow):
        with fast:
            write_unpacked(code, target, load, place)
        with slow:
            each()


def write_taken(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a tile of elements by their places in the rows of another tile."""
    code = TileCode(emitter, operation)
    target, source = map(code.tile, operation.operands[:2])
    taken = write_take(code, source, operation.attributes["extent"])
    with code.slots() as slot:
        target.put(slot, taken(slot))


def write_copy(emitter: CpuEmitter, operation: Operation) -> None:
    """Copy tiles to the memory in which a branch or loop hands them on."""
    code = TileCode(emitter, operation)
    half = len(operation.operands) // 2
    sources, targets = operation.operands[:half], operation.operands[half:]
    counts = [each.owner.attributes["shape"][0] for each in targets]  # type: ignore[union-attr]
    given = [code.tile(each) for each in sources]
    if set(sources) & set(targets):
        given = [_copied(code, *each) for each in zip(given, counts, strict=True)]
    for source, target, count in zip(given, map(code.tile, targets), counts, strict=True):
        with code.loop(0, count) as index:
            target.set(index, source.get(index))


def _copied(code: TileCode, source: Elements, count: int) -> Elements:
    """Return a copy of elements."""
    copy = code.buffer(source.kind, count)
    with code.loop(0, count) as index:
        copy.set(index, source.get(index))
    return copy
