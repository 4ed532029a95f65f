"""Finding where a unit of work is: a block in its grid, or pieces of rows of elements.

These are instructions, and not statements that Numba would compile: its divisions take care of
signs and of zero, which no extent is.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir

from targets.cpu.math.division import divide_unsigned

__all__ = ["WARP_SIZE", "block_place", "row_pieces"]

#: Threads of a warp, on every machine.
WARP_SIZE = 32

_I64 = ir.IntType(64)
#: Rows of blocks that are visited column by column.
_TOP_ROWS = 4


def _minimum(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.icmp_signed("<", a, b), a, b)


def row_pieces(
    builder: Any, first: Any, last: Any, segment: Any, nx: Any, ny: Any
) -> tuple[Any, ...]:
    """Return the pieces of rows from a unit on that run in one loop, and the unit after them.

    ``z, first_y, last_y, first_piece, last_piece, after``: rows of one piece each run together,
    and pieces of one row.
    """
    one = _I64(1)
    segments, _ = divide_unsigned(builder, builder.sub(builder.add(nx, segment), one), segment)
    row, piece = divide_unsigned(builder, first, segments)
    z, first_y = divide_unsigned(builder, row, ny)
    left = builder.sub(last, first)
    last_piece = _minimum(builder, builder.add(piece, left), segments)
    rows = _minimum(builder, builder.add(first_y, left), ny)
    are_whole = builder.icmp_signed("==", segments, one)
    last_y = builder.select(are_whole, rows, builder.add(first_y, one))
    count = builder.mul(builder.sub(last_piece, piece), builder.sub(last_y, first_y))
    return z, first_y, last_y, piece, last_piece, builder.add(first, count)


def block_place(builder: Any, block: Any, gx: Any, gy: Any, gz: Any) -> list[Any]:
    """Return the place ``x, y, z`` of a block in a grid, by its number.

    Blocks are visited down short columns, not along whole rows of the grid: neighbours along either
    axis then meet in the cache, as the tiles of a matrix product want it.
    """
    one, zero, top_rows = _I64(1), _I64(0), _I64(_TOP_ROWS)
    has_rows = builder.or_(builder.icmp_signed(">", gy, one), builder.icmp_signed(">", gz, one))
    before = builder.block
    with builder.if_then(has_rows):
        z, plane = divide_unsigned(builder, block, builder.mul(gx, gy))
        strip, below = divide_unsigned(builder, plane, builder.mul(top_rows, gx))
        top = builder.mul(strip, top_rows)
        rows = _minimum(builder, top_rows, builder.sub(gy, top))
        x, row = divide_unsigned(builder, below, rows)
        y = builder.add(row, top)
        placed = builder.block
    found = []
    for in_line, in_plane in ((block, x), (zero, y), (zero, z)):
        phi = builder.phi(_I64)
        phi.add_incoming(in_line, before)
        phi.add_incoming(in_plane, placed)
        found.append(phi)
    return found
