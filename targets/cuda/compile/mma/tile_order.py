"""The order in which blocks take the tiles of a result: in groups of rows of tiles.

Blocks that run at the same time then have tiles of a rectangle that is nearly square in elements.
It needs the fewest rows and columns of the factors, which are in the second-level cache at that
time.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence

from llvmlite import ir

from kerneldsl.ir.operations import Operation, Region, Value
from kerneldsl.lowering.calls import join

__all__ = ["group_tiles", "place_in_groups"]

_I32, _I64 = ir.IntType(32), ir.IntType(64)
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
    number = body.arguments[0]
    total = loop.operands[1].owner
    column, row = (_by_width(body, number, each) for each in (operator.mod, operator.floordiv))
    if column is None or row is None or not isinstance(total, Operation):
        return
    width = column.operands[1]
    if width not in total.operands or row.operands[1] is not width:
        return
    wanted = math.sqrt(_BLOCKS * columns / rows)
    attributes = {"group": 2 ** round(math.log2(wanted))}
    types = (number.type, number.type)
    made = Operation("ring.tile", [number, *total.operands], types, attributes)
    places = dict(zip((row.result, column.result), made.results, strict=True))
    body.operations = [made, *(each for each in body.operations if each not in (row, column))]
    for operation in body.walk():
        operation.operands = [places.get(value, value) for value in operation.operands]


def _by_width(body: Region, number: Value, function: object) -> Operation | None:
    """Return the operation that computes the row or the column of a tile by its number."""
    for each in body.operations:
        if each.attributes.get("function") is function and each.operands[0] is number:
            return each
    return None


def place_in_groups(
    builder: ir.IRBuilder, number: ir.Value, height: ir.Value, width: ir.Value, group: int
) -> tuple[ir.Value, ir.Value]:
    """Return the row and the column of the tile that is taken as one of some number.

    `height` and `width` are how many there are along each axis, and `group` the rows of a group.
    """
    # Integers of 32 bits are divided several times as fast as those of 64 bits.
    is_short = builder.icmp_unsigned("<", builder.mul(height, width), _I64(2**32 // group))
    with builder.if_else(is_short) as (short, long):
        with short:
            few = [builder.trunc(each, _I32) for each in (number, height, width)]
            row, column = (builder.zext(v, _I64) for v in _placed(builder, few, group))
            from_short = builder.block
        with long:
            whole = _placed(builder, (number, height, width), group)
            from_long = builder.block
    row, column = (
        join(builder, (one, from_short), (two, from_long))
        for one, two in zip((row, column), whole, strict=True)
    )
    return row, column


def _placed(
    builder: ir.IRBuilder, about: Sequence[ir.Value], group: int
) -> tuple[ir.Value, ir.Value]:
    number, height, width = about
    most = number.type(group)
    of_group = builder.mul(width, most)
    # The first copies wait for the place of the first tile, which is mostly in the first group.
    is_later = builder.icmp_unsigned(">=", number, of_group)
    which = _chosen(builder, is_later, lambda: builder.udiv(number, of_group), number.type(0))
    within = builder.sub(number, builder.mul(which, of_group))
    first = builder.mul(which, most)
    rest = builder.sub(height, first)
    rows = builder.select(builder.icmp_unsigned("<", most, rest), most, rest)
    is_partial = builder.icmp_unsigned("<", rows, most)
    whole = builder.lshr(within, number.type(group.bit_length() - 1))
    column = _chosen(builder, is_partial, lambda: builder.udiv(within, rows), whole)
    row = builder.sub(within, builder.mul(column, rows))
    return builder.add(first, row), column


def _chosen(
    builder: ir.IRBuilder, test: ir.Value, slow: Callable[[], ir.Value], fast: ir.Value
) -> ir.Value:
    """Return what a function computes if a test holds, and a value that is known otherwise."""
    before = builder.block
    with builder.if_then(test):
        found = slow()
        after = builder.block
    return join(builder, (fast, before), (found, after))
