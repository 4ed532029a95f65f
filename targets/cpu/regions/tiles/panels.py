"""Lay out a factor of a product in panels: some columns at a time, one row after the other.

The register kernels then read a panel from its begin to its end. A factor with its axes exchanged
is transposed in squares, each in as many registers as it has rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir
from numba import types

from targets.cpu.regions.tiles.register_kernels import Part
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["in_words", "write_panels", "write_transposed"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Rows of the largest square.
_SQUARE = 16


def write_panels(
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
                lines = in_words(code, source, group)
                write_transposed(code, lines, start, made, start, (width, words), width)
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


def in_words(code: TileCode, source: Elements, group: int) -> Elements:
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


def write_transposed(
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
