"""Products of tiles, by register kernels: each element adds its products along k, in rising order.

Factors are converted to the dtype of sums before. The first one is read row by row, the second one
in panels. A panel of a tile stays in the innermost cache while all rows are multiplied by it.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.panels import write_panels, write_transposed
from targets.cpu.regions.tiles.register_kernels import Part, parts, register_kernel, registers
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_mma"]

_I64 = ir.IntType(64)
#: Columns of the narrowest panel.
_NARROWEST = 8


def write_mma(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a product, with the tile that is added."""
    target, *operands = operation.operands
    code, attributes = TileCode(emitter, operation), operation.attributes
    (rows, columns), depth = code.shape, attributes["depth"]
    result, (one, two, *added) = code.tile(target), map(code.tile, operands)
    builder, exchanged = code.builder, attributes["exchanged"]
    left = _converted(code, one, result, rows * depth)
    if exchanged[0]:
        made = code.buffer(result.kind, rows * depth)
        write_transposed(code, left, _I64(0), made, _I64(0), (depth, rows), depth)
        left = made
    kind = emitter.context.get_value_type(result.kind)
    groups = _panels(columns, 2 * registers().nbytes // emitter.context.get_abi_sizeof(kind))
    right = code.buffer(result.kind, depth * columns)
    factor = _converted(code, two, result, depth * columns)
    shape = depth, columns
    write_panels(code, factor, right, shape, groups, is_exchanged=exchanged[1])
    if not added or operands[2] is not target:
        with code.loop(0, code.count) as index:
            result.set(index, added[0].get(index) if added else ir.Constant(kind, 0))
    for panel in groups:
        with code.repeat(
            panel.first, panel.first + panel.size * panel.number, panel.size
        ) as column:
            begin = right.place(builder.mul(column, _I64(depth)))
            for first, height, count in parts(rows, registers().heights):
                function = register_kernel(builder.module, kind, height, panel.size, depth, columns)
                with code.repeat(first, first + height * count, height) as row:
                    start = left.place(builder.mul(row, _I64(depth)))
                    index = builder.add(builder.mul(row, _I64(columns)), column)
                    builder.call(function, [start, begin, result.place(index)])


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


def _converted(code: TileCode, source: Elements, result: Elements, count: int) -> Elements:
    """Return the elements of a factor in the dtype of sums."""
    if source.kind == result.kind:
        return source
    made = code.buffer(result.kind, count)
    with code.loop(0, count) as index:
        value = code.emitter.convert(source.get(index), source.kind, result.kind)
        made.set(index, value)
    return made
