"""The loop over the units of work of a call: pieces of rows, or blocks."""

from __future__ import annotations

import ast
import math

from kerneldsl.frontend.syntax import load
from targets.cpu.ids import BlockSpace, ElementSpace, Space

__all__ = ["threads_of_call", "units_loop"]

#: Pieces of rows are counted on, since a division takes as long as a vector loop over a short row.
_ELEMENTS = """
kd_segments = (kd_nx + kd_segment - 1) // kd_segment
kd_row = kd_first // kd_segments
kd_piece = kd_first - kd_row * kd_segments - 1
kd_z = kd_row // kd_ny
kd_y = kd_row - kd_z * kd_ny
for kd_unit in kd_range(kd_first, kd_last):
    kd_piece += 1
    if kd_piece == kd_segments:
        kd_piece = 0
        kd_y += 1
        if kd_y == kd_ny:
            kd_y = 0
            kd_z += 1
    kd_first_x = kd_piece * kd_segment
    kd_last_x = kd_min(kd_first_x + kd_segment, kd_nx)
"""
#: Blocks are visited down short columns, not along whole rows of the grid: neighbours along either
#: axis then meet in the cache, as the tiles of a matrix product want it.
_BLOCKS = """
for kd_block in kd_range(kd_first, kd_last):
    kd_bx = kd_block
    kd_by = 0
    kd_bz = 0
    if kd_gy > 1 or kd_gz > 1:
        kd_bz = kd_block // (kd_gx * kd_gy)
        kd_plane = kd_block - kd_bz * (kd_gx * kd_gy)
        kd_top = kd_plane // (4 * kd_gx) * 4
        kd_rows = kd_min(4, kd_gy - kd_top)
        kd_bx = (kd_plane - kd_top * kd_gx) // kd_rows
        kd_by = kd_plane - kd_top * kd_gx - kd_bx * kd_rows + kd_top
"""


def units_loop(body: list[ast.stmt], space: Space) -> list[ast.stmt]:
    """Return the statements that run a body for each unit of work of a call."""
    statements = ast.parse(_ELEMENTS if isinstance(space, ElementSpace) else _BLOCKS).body
    for statement in statements:
        for node in ast.walk(statement):
            for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
                node.__dict__.pop(attribute, None)
    loop = statements[-1]
    assert isinstance(loop, ast.For)
    loop.body += body
    return statements


def threads_of_call(space: Space) -> ast.expr:
    """Return how many threads a call runs, at most."""
    each: ast.expr = load("kd_segment")
    if isinstance(space, BlockSpace):
        each = ast.Constant(math.prod(space.block_dim))
    units = ast.BinOp(load("kd_last"), ast.Sub(), load("kd_first"))
    return ast.BinOp(units, ast.Mult(), each)
