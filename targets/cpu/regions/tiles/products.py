"""Products of tiles, by register kernels: each element adds its products along k, in rising order.

Factors are converted to what the processor multiplies. The first one is read row by row, the second
one in panels. A panel of a tile stays in the innermost cache while all rows are multiplied by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types

from kerneldsl.ir.operations import Operation
from kerneldsl.lowering.types import element_type
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.register_kernels import (
    FLIP,
    Part,
    Unit,
    parts,
    register_kernel,
    registers,
    size_of,
    unit_for,
)
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_mma"]


# Lay out a factor of a product in panels: some columns at a time, one row after the other.
#
# The register kernels then read a panel from its begin to its end. A factor with its axes
# exchanged is transposed in squares, each in as many registers as it has rows.

#: Rows of the largest square.
_SQUARE = 16


def _write_panels(
    code: TileCode,
    source: Elements,
    made: Elements,
    shape: tuple[int, int],
    groups: Sequence[Part],
    group: int,
    *,
    is_exchanged: bool,
) -> None:
    """Write the panels of a factor (k, n), or (n, k) if its axes are exchanged.

    An element of a panel is a word of `group` neighbours along k.
    """
    depth, columns = shape
    builder, words = code.builder, depth // group
    for first, width, count in groups:
        with code.repeat(first, first + width * count, width) as column:
            start = builder.mul(column, _I64(words))
            if is_exchanged:
                lines = _in_words(code, source, group)
                _write_transposed(code, lines, start, made, start, (width, words), width)
                continue
            with code.repeat(0, words) as row:
                index = builder.add(builder.mul(row, _I64(group * columns)), column)
                rows = [
                    _load(code, source, builder.add(index, _I64(number * columns)), width)
                    for number in range(group)
                ]
                value = _interleaved(builder, rows)
                place = builder.add(start, builder.mul(row, _I64(width)))
                if group > 1:
                    value = builder.bitcast(value, ir.VectorType(_I32, width))
                _store(code, value, made, place)


def _in_words(code: TileCode, source: Elements, group: int) -> Elements:
    """Return elements as words of `group` neighbours."""
    if group == 1:
        return source
    data = code.builder.bitcast(source.data, _I32.as_pointer())
    return Elements(code.emitter, data, types.int32)


def _interleaved(builder: ir.IRBuilder, rows: list[ir.Value]) -> ir.Value:
    """Return the first elements of all vectors, then the second ones, and so on."""
    while len(rows) > 1:
        half = len(rows) // 2
        rows = [_zipped(builder, *pair) for pair in zip(rows[:half], rows[half:], strict=True)]
    return rows[0]


def _zipped(builder: ir.IRBuilder, one: ir.Value, two: ir.Value) -> ir.Value:
    count = one.type.count
    lanes = [lane for number in range(count) for lane in (number, count + number)]
    return builder.shuffle_vector(one, two, ir.VectorType(_I32, 2 * count)(lanes))


def _write_transposed(
    code: TileCode,
    source: Elements,
    begin: ir.Value,
    made: Elements,
    start: ir.Value,
    shape: tuple[int, int],
    stride: int,
) -> None:
    """Write the columns of a part of a matrix with contiguous rows as rows of another matrix.

    The rows of the result are `stride` elements apart.
    """
    (rows, columns), builder = shape, code.builder
    side = math.gcd(rows, columns, _SQUARE)
    with code.repeat(0, rows, side) as row, code.repeat(0, columns, side) as column:
        first = builder.add(begin, builder.add(builder.mul(row, _I64(columns)), column))
        lines = [
            _load(code, source, builder.add(first, _I64(number * columns)), side)
            for number in range(side)
        ]
        first = builder.add(start, builder.add(builder.mul(column, _I64(stride)), row))
        for number, line in enumerate(_exchanged(builder, lines)):
            _store(code, line, made, builder.add(first, _I64(number * stride)))


def _exchanged(builder: ir.IRBuilder, lines: list[ir.Value]) -> list[ir.Value]:
    """Return the columns of a square of vectors: halves change places, then smaller blocks."""
    side = len(lines)
    lanes = ir.VectorType(_I32, side)
    step = side // 2
    while step:
        below = [n if not n & step else side + n - step for n in range(side)]
        above = [n + step if not n & step else side + n for n in range(side)]
        for number in range(side):
            if not number & step:
                one, two = lines[number], lines[number + step]
                lines[number] = builder.shuffle_vector(one, two, lanes(below))
                lines[number + step] = builder.shuffle_vector(one, two, lanes(above))
        step //= 2
    return lines


def _place(code: TileCode, elements: Elements, index: ir.Value, count: int) -> ir.Value:
    place = elements.place(index)
    return code.builder.bitcast(place, ir.VectorType(place.type.pointee, count).as_pointer())


def _load(code: TileCode, source: Elements, index: ir.Value, count: int) -> ir.Value:
    found = code.builder.load(_place(code, source, index, count))
    found.align = 1
    return found


def _store(code: TileCode, value: ir.Value, made: Elements, index: ir.Value) -> None:
    place = _place(code, made, index, value.type.count)
    code.builder.store(value, place).align = 1


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
        _write_transposed(code, one, _I64(0), made, _I64(0), (depth, rows), depth)
        one = made
    words = depth // unit.group
    left = _in_words(code, one, unit.group)
    if unit.flips:
        left = _flipped(code, left, rows * words)
    panels = _panels(columns, 2 * registers().nbytes // size_of(sums))
    right = code.buffer(left.kind, words * columns)
    shape = depth, columns
    _write_panels(code, two, right, shape, panels, unit.group, is_exchanged=exchanged[1])
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
