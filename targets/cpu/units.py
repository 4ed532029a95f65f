"""The loops over what one call of generated code runs: row segments, or blocks and their warps."""

from __future__ import annotations

import ast

from kerneldsl.frontend.syntax import assign, call, store
from targets.cpu.ids import WARP_SIZE, ElementSpace, Space, WarpSpace

__all__ = ["units_loop"]

_ELEMENT_UNITS = """
for kd_unit in kd_range(kd_first, kd_last):
    kd_segments = (kd_nx + kd_segment - 1) // kd_segment
    kd_row = kd_unit // kd_segments
    kd_first_x = (kd_unit - kd_row * kd_segments) * kd_segment
    kd_last_x = kd_min(kd_first_x + kd_segment, kd_nx)
    kd_z = kd_row // kd_ny
    kd_y = kd_row - kd_z * kd_ny
"""
#: Blocks are visited down short columns, not along whole rows of the grid: neighbours along either
#: axis then meet in the cache, as the tiles of a matrix product want it.
_BLOCK_UNITS = """
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


def units_loop(space: Space, body: list[ast.stmt]) -> ast.stmt:
    """Return the loop over this call's units of work, which runs `body` for each."""
    text = _ELEMENT_UNITS if isinstance(space, ElementSpace) else _BLOCK_UNITS
    loop = ast.parse(text).body[0]
    assert isinstance(loop, ast.For)
    for node in ast.walk(loop):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            node.__dict__.pop(attribute, None)
    loop.body += _loops_over_warps(space, body) if isinstance(space, WarpSpace) else body
    return loop


def _loops_over_warps(space: WarpSpace, body: list[ast.stmt]) -> list[ast.stmt]:
    """Return the loops over the warps of a block; ``continue`` in the body leaves its warp."""
    steps = (WARP_SIZE, 1, 1)
    for axis, extent, step in zip("xyz", space.block_dim, steps, strict=True):
        name = f"kd_w{axis}"
        if extent == step:
            body = [assign(name, ast.Constant(0)), *body]
        else:
            starts = call("kd_range", ast.Constant(0), ast.Constant(extent), ast.Constant(step))
            body = [ast.For(store(name), starts, body, [])]
    return body
