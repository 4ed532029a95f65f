"""Elements of a tile in the registers of a warp, as products of tensor cores give them.

A fragment has 16 rows and 8 columns. Lane 4·g + t has the columns 2·t and 2·t + 1 of its rows g
and g + 8. The warps of a block take blocks of rows in turn, and of columns one part each. With all
warps along the rows this is also the layout of ``wgmma``: each warp has 16 of 64 rows.

References
----------
PTX ISA, sections "Matrix Fragments for mma.m16n8k16" and "Register Fragments and Shared Memory
Matrix Layouts" of ``wgmma``.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from llvmlite import ir

from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["BLOCK_COLUMNS", "BLOCK_ROWS", "Fragments", "RowFragments", "divisions"]

#: Rows and columns of a fragment.
BLOCK_ROWS, BLOCK_COLUMNS = 16, 8
#: Elements of a fragment that a lane has.
_ELEMENTS = 4
_WARP = 32
_I64 = ir.IntType(64)

_Indices: TypeAlias = tuple[ir.Value, ir.Value]


@dataclass(frozen=True)
class Fragments:
    """A tile as fragments of the warps of a block.

    The elements of a thread are numbered by block of rows, then by block of columns.

    Parameters
    ----------
    rows, columns : int
        Extents of the tile.
    row_warps, column_warps : int
        Warps along each axis.
    """

    rows: int
    columns: int
    row_warps: int
    column_warps: int

    #: A thread has no groups of neighbours, and each one has as many elements.
    group: ClassVar = 1
    is_even: ClassVar = True

    @property
    def row_blocks(self) -> int:
        """Blocks of rows of a warp."""
        return self.rows // (BLOCK_ROWS * self.row_warps)

    @property
    def column_blocks(self) -> int:
        """Blocks of columns of a warp."""
        return self.columns // (BLOCK_COLUMNS * self.column_warps)

    @property
    def slot_count(self) -> int:
        """Elements of a thread."""
        return _ELEMENTS * self.row_blocks * self.column_blocks

    rounds = slot_count

    @property
    def count(self) -> int:
        """Elements of the tile."""
        return self.rows * self.columns

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return _WARP * self.row_warps * self.column_warps

    def first(self, row_block: int, column_block: int) -> int:
        """Return the number of a thread's first element of a fragment."""
        return _ELEMENTS * (row_block * self.column_blocks + column_block)

    def indices(self, builder: ir.IRBuilder, thread: ir.Value, slot: ir.Value) -> _Indices:
        """Return the row and the column of an element of a thread."""
        block, element = _divided(builder, slot, _ELEMENTS)
        row_block, column_block = _divided(builder, block, self.column_blocks)
        half, odd = _divided(builder, element, 2)
        warp, lane = _divided(builder, thread, _WARP)
        group, place = _divided(builder, lane, _ELEMENTS)
        row = _row(self, builder, warp, row_block, half, group)
        column = _sum(
            builder,
            (_divided(builder, warp, self.row_warps)[0], BLOCK_COLUMNS * self.column_blocks),
            (column_block, BLOCK_COLUMNS),
            (place, 2),
            (odd, 1),
        )
        return row, column

    def of_rows(self) -> RowFragments:
        """Return the layout of one element for each row."""
        return RowFragments(self.rows, self.row_warps, self.column_warps)

    def row_slot(self, builder: ir.IRBuilder, slot: ir.Value) -> ir.Value:
        """Return the number of the element of the row that an element is in."""
        block, element = _divided(builder, slot, _ELEMENTS)
        row_block, _ = _divided(builder, block, self.column_blocks)
        half, _ = _divided(builder, element, 2)
        return _sum(builder, (row_block, 2), (half, 1))


@dataclass(frozen=True)
class RowFragments:
    """One element for each row of a tile in fragments, in all threads with elements of the row."""

    rows: int
    row_warps: int
    column_warps: int

    columns: ClassVar = 1
    group: ClassVar = 1
    is_even: ClassVar = True

    @property
    def slot_count(self) -> int:
        """Elements of a thread."""
        return 2 * self.rows // (BLOCK_ROWS * self.row_warps)

    rounds = slot_count

    @property
    def count(self) -> int:
        """Elements of the tile."""
        return self.rows

    @property
    def threads(self) -> int:
        """Threads of the block."""
        return _WARP * self.row_warps * self.column_warps

    def indices(self, builder: ir.IRBuilder, thread: ir.Value, slot: ir.Value) -> _Indices:
        """Return the row of an element of a thread, and column 0."""
        row_block, half = _divided(builder, slot, 2)
        warp, lane = _divided(builder, thread, _WARP)
        group, _ = _divided(builder, lane, _ELEMENTS)
        return _row(self, builder, warp, row_block, half, group), _I64(0)

    def is_first(self, builder: ir.IRBuilder, thread: ir.Value) -> ir.Value:
        """Say whether a thread is the first of those that have the same elements."""
        warp, lane = _divided(builder, thread, _WARP)
        _, place = _divided(builder, lane, _ELEMENTS)
        column, _ = _divided(builder, warp, self.row_warps)
        return builder.icmp_unsigned("==", builder.or_(place, column), _I64(0))


def _row(
    layout: Fragments | RowFragments,
    builder: ir.IRBuilder,
    warp: ir.Value,
    row_block: ir.Value,
    half: ir.Value,
    group: ir.Value,
) -> ir.Value:
    return _sum(
        builder,
        (row_block, BLOCK_ROWS * layout.row_warps),
        (_divided(builder, warp, layout.row_warps)[1], BLOCK_ROWS),
        (half, BLOCK_ROWS // 2),
        (group, 1),
    )


def _divided(builder: ir.IRBuilder, value: ir.Value, by: int) -> _Indices:
    """Return quotient and remainder of an integer that is not negative."""
    if by == 1:
        return value, value.type(0)
    divisor = value.type(by)
    return builder.udiv(value, divisor), builder.urem(value, divisor)


def _sum(builder: ir.IRBuilder, *terms: tuple[ir.Value, int]) -> ir.Value:
    """Return a sum of products with numbers."""
    total: ir.Value | None = None
    for value, factor in terms:
        term = value if factor == 1 else builder.mul(value, value.type(factor))
        total = term if total is None else builder.add(total, term)
    return total


def divisions(rows: int, columns: int, threads: int) -> list[Fragments]:
    """Return the ways to divide a tile among the warps of a block, none if it does not fit.

    The first ones need the fewest operands: a warp has nearly as many rows as columns.
    """
    if threads % _WARP:
        return []
    found, warps = [], threads // _WARP
    for row_warps in range(1, warps + 1):
        column_warps, rest = divmod(warps, row_warps)
        is_whole = not rows % (BLOCK_ROWS * row_warps) and not columns % (
            BLOCK_COLUMNS * column_warps or 1
        )
        if rest == 0 and is_whole:
            found.append(Fragments(rows, columns, row_warps, column_warps))
    return sorted(found, key=lambda each: rows // each.row_warps + columns // each.column_warps)
