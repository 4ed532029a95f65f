"""Products of tiles, by register kernels: each element adds its products along k, in rising order.

Factors are converted to what the processor multiplies. The first one is read row by row, the second
one in panels. A panel of a tile stays in the innermost cache while all rows are multiplied by it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.types import element_type
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.panels import in_words, write_panels, write_transposed
from targets.cpu.regions.tiles.product_units import FLIP, Unit, unit_for
from targets.cpu.regions.tiles.register_kernels import (
    Part,
    parts,
    register_kernel,
    registers,
    size_of,
)
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_mma"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Columns of the narrowest panel.
_NARROWEST = 8


def write_mma(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a product, with the tile that is added."""
    target, *operands = operation.operands
    code, attributes = TileCode(emitter, operation), operation.attributes
    (rows, columns), depth = code.shape, attributes["depth"]
    result, (one, two, *added) = code.tile(target), map(code.tile, operands)
    builder, exchanged = code.builder, attributes["exchanged"]
    unit = unit_for(one.kind, two.kind, attributes["precision"])
    sums = emitter.context.get_value_type(result.kind)
    one, two = (
        _converted(code, each, _kind_of(unit, each, result), depth * extent)
        for each, extent in ((one, rows), (two, columns))
    )
    if exchanged[0]:
        made = code.buffer(one.kind, rows * depth)
        write_transposed(code, one, _I64(0), made, _I64(0), (depth, rows), depth)
        one = made
    words = depth // unit.group
    left = in_words(code, one, unit.group)
    if unit.flips:
        left = _flipped(code, left, rows * words)
    panels = _panels(columns, 2 * registers().nbytes // size_of(sums))
    right = code.buffer(left.kind, words * columns)
    shape = depth, columns
    write_panels(code, two, right, shape, panels, unit.group, is_exchanged=exchanged[1])
    if not added or operands[2] is not target:
        with code.loop(0, code.count) as index:
            result.set(index, added[0].get(index) if added else ir.Constant(sums, 0))
    for panel in panels:
        with code.repeat(
            panel.first, panel.first + panel.size * panel.number, panel.size
        ) as column:
            begin = right.place(builder.mul(column, _I64(words)))
            less = result.data
            if unit.flips:
                less = _of_flips(code, unit, begin, panel.size, words)
            for first, height, count in parts(rows, registers().heights):
                function = register_kernel(
                    builder.module, unit, sums, height, panel.size, words, columns
                )
                with code.repeat(first, first + height * count, height) as row:
                    start = left.place(builder.mul(row, _I64(words)))
                    index = builder.add(builder.mul(row, _I64(columns)), column)
                    builder.call(function, [start, begin, result.place(index), less])


def _kind_of(unit: Unit, factor: Elements, result: Elements) -> Any:
    """Return the type that a factor is converted to."""
    if unit.group == 1:
        return result.kind
    return element_type(unit.dtype) if unit.dtype else factor.kind


def _flipped(code: TileCode, words: Elements, count: int) -> Elements:
    """Return bytes with a sign as bytes without one, that are larger by 128."""
    made = code.buffer(words.kind, count)
    with code.loop(0, count) as index:
        made.set(index, code.builder.xor(words.get(index), _I32(FLIP)))
    return made


def _of_flips(code: TileCode, unit: Unit, panel: ir.Value, width: int, words: int) -> ir.Value:
    """Return the address of what flipped bytes add in the columns of a panel."""
    made = code.buffer(types.int32, width).data
    builder, kind = code.builder, ir.VectorType(_I32, width)
    place = builder.bitcast(made, kind.as_pointer())
    builder.store(kind([0] * width), place).align = 4
    lanes = ir.VectorType(_I32, min(width, registers().nbytes // 4))
    with code.repeat(0, words * width, width) as step, code.repeat(0, width, lanes.count) as column:
        total = builder.bitcast(builder.gep(made, [column]), lanes.as_pointer())
        index = builder.add(step, column)
        two = builder.load(builder.bitcast(builder.gep(panel, [index]), lanes.as_pointer()))
        before = builder.load(total)
        two.align = before.align = 4
        one = lanes([FLIP] * lanes.count)
        builder.store(unit.add(builder, one, two, before), total).align = 4
    return made


def _panels(columns: int, widest: int) -> list[Part]:
    """Divide columns, a multiple of 8, into panels: wide ones, then narrower ones."""
    found, first, width = [], 0, max(widest, _NARROWEST)
    while first < columns:
        count = (columns - first) // width
        if count:
            found.append(Part(first, width, count))
            first += count * width
        width //= 2
    return found


def _converted(code: TileCode, source: Elements, kind: Any, count: int) -> Elements:
    """Return the elements of a factor in another type."""
    if source.kind == kind:
        return source
    made = code.buffer(kind, count)
    with code.loop(0, count) as index:
        made.set(index, code.emitter.convert(source.get(index), source.kind, kind))
    return made
