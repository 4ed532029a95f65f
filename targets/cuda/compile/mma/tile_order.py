"""The order in which blocks take the tiles of a result: in groups of rows of tiles.

Blocks that run at the same time then have tiles of a rectangle that is nearly square in elements.
It needs the fewest rows and columns of the factors, which are in the second-level cache at that
time.
"""

from __future__ import annotations

import math
import operator

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Region, Value

__all__ = ["group_tiles", "number_in_groups"]

_I64 = ir.IntType(64)
#: Multiprocessors of an H100 or H200; each has one tile at a time.
_BLOCKS = 132


def group_tiles(region: Region) -> None:
    """Let the loops over tiles of a region take them in groups, by ``ring.tile``."""
    for loop in region.walk():
        shape = loop.attributes.get("tiles") if loop.name == "for" else None
        if shape is not None and len(shape) == 2:
            _group(loop, *shape)


def _group(loop: Operation, rows: int, columns: int) -> None:
    (body,) = loop.regions
    number, total = body.arguments[0], loop.operands[1]
    width = next((each.operands[1] for each in body.operations if _is_column(each, number)), None)
    if width is None:
        return
    wanted = math.sqrt(_BLOCKS * columns / rows)
    attributes = {"group": 2 ** round(math.log2(wanted))}
    made = Operation("ring.tile", [number, total, width], (number.type,), attributes)
    for operation in body.walk():
        operation.operands = [made.result if v is number else v for v in operation.operands]
    body.operations.insert(0, made)


def _is_column(operation: Operation, number: Value) -> bool:
    """Return whether an operation computes the column of a tile by its number."""
    attributes = operation.attributes
    return attributes.get("function") is operator.mod and operation.operands[0] is number


def number_in_groups(
    builder: ir.IRBuilder, number: ir.Value, total: ir.Value, width: ir.Value, group: int
) -> ir.Value:
    """Return the tile that is taken in place of another one.

    `total` is how many there are, `width` how many are in a row, and `group` the rows of a group.
    """
    of_group = builder.mul(width, _I64(group))
    which, within = builder.udiv(number, of_group), builder.urem(number, of_group)
    first = builder.mul(which, _I64(group))
    rest = builder.sub(builder.udiv(total, width), first)
    is_whole = builder.icmp_unsigned("<", _I64(group), rest)
    rows = builder.select(is_whole, _I64(group), rest)
    row = builder.add(first, builder.urem(within, rows))
    return builder.add(builder.mul(row, width), builder.udiv(within, rows))
