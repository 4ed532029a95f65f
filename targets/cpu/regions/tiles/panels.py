"""Lay out a factor of a product in panels: some columns at a time, one row after the other.

The register kernels then read a panel from its begin to its end. A factor with its axes exchanged
is transposed in squares, each in as many registers as it has rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from llvmlite import ir

from targets.cpu.regions.tiles.register_kernels import Part
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_panels", "write_transposed"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
#: Rows of the largest square.
_SQUARE = 16


def write_panels(
    code: TileCode,
    source: Elements,
    made: Elements,
    shape: tuple[int, int],
    groups: Sequence[Part],
    *,
    is_exchanged: bool,
) -> None:
    """Write the panels of a factor (k, n), or (n, k) if its axes are exchanged."""
    depth, columns = shape
    builder = code.builder
    for first, width, count in groups:
        with code.repeat(first, first + width * count, width) as column:
            start = builder.mul(column, _I64(depth))
            if is_exchanged:
                begin = builder.mul(column, _I64(depth))
                write_transposed(code, source, begin, made, start, (width, depth), width)
                continue
            with code.repeat(0, depth) as row:
                index = builder.add(builder.mul(row, _I64(columns)), column)
                place = builder.add(start, builder.mul(row, _I64(width)))
                _store(code, _load(code, source, index, width), made, place)


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
    found.align = 4
    return found


def _store(code: TileCode, value: ir.Value, made: Elements, index: ir.Value) -> None:
    place = _place(code, made, index, value.type.count)
    code.builder.store(value, place).align = 4
