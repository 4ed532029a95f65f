"""Products of tiles: each element of the result adds its products along k, in rising order.

Both factors are converted to the dtype of sums, and laid out by rows, before. So the innermost loop
runs along a row of the result, and LLVM makes vectors of it.
"""

from __future__ import annotations

from llvmlite import ir

from kerneldsl.ir.operations import Operation
from kerneldsl.ir.tiles.elements import add_product
from targets.cpu.regions.emitter import CpuEmitter
from targets.cpu.regions.tiles.writer import Elements, TileCode

__all__ = ["write_mma"]

_I64 = ir.IntType(64)


def write_mma(emitter: CpuEmitter, operation: Operation) -> None:
    """Write a product, with the tile that is added."""
    target, *operands = operation.operands
    code, attributes = TileCode(emitter, operation), operation.attributes
    (rows, columns), depth = code.shape, attributes["depth"]
    result, (one, two, *added) = code.tile(target), map(code.tile, operands)
    exchanged = attributes["exchanged"]
    left = _by_rows(code, one, (rows, depth), result, is_exchanged=exchanged[0])
    right = _by_rows(code, two, (depth, columns), result, is_exchanged=exchanged[1])
    builder = code.builder
    if not added or operands[2] is not target:
        with code.loop(0, code.count) as index:
            zero = ir.Constant(emitter.context.get_value_type(result.kind), 0)
            result.set(index, added[0].get(index) if added else zero)
    with code.repeat(0, rows) as row, code.repeat(0, depth) as place:
        factor = left.get(builder.add(builder.mul(row, _I64(depth)), place))
        first, start = (builder.mul(each, _I64(columns)) for each in (row, place))
        with code.loop(0, columns) as column:
            index = builder.add(first, column)
            other = right.get(builder.add(start, column))
            result.set(index, add_product(builder, factor, other, result.get(index)))


def _by_rows(
    code: TileCode,
    source: Elements,
    shape: tuple[int, int],
    result: Elements,
    *,
    is_exchanged: bool,
) -> Elements:
    """Return the elements of a factor in the dtype of sums, one row after the other."""
    if source.kind == result.kind and not is_exchanged:
        return source
    (rows, columns), builder = shape, code.builder
    made = code.buffer(result.kind, rows * columns)
    outer, inner = (rows, columns)[:: -1 if is_exchanged else 1]
    with code.repeat(0, outer) as one, code.loop(0, inner) as two:
        value = source.get(builder.add(builder.mul(one, _I64(inner)), two))
        row, column = (one, two)[:: -1 if is_exchanged else 1]
        index = builder.add(builder.mul(row, _I64(columns)), column)
        made.set(index, code.emitter.convert(value, source.kind, result.kind))
    return made
