"""The loops over a call's units of work: blocks and their warps, or pieces of rows of elements."""

from __future__ import annotations

import ast
import math

from kerneldsl.frontend.syntax import assign, call, load, store
from kerneldsl.frontend.trees import walk_here
from targets.cpu.passes.ids import WARP_SIZE, BlockSpace, ElementSpace, Space, WarpSpace

__all__ = ["threads_of_call", "units_loop"]

#: Rows of one piece run in a separate loop; their ends are computed outside of it.
_ELEMENT_UNITS = """
while kd_first < kd_last:
    kd_pieces = kd_row_pieces(kd_first, kd_last, kd_segment, kd_nx, kd_ny)
    kd_z, kd_first_y, kd_last_y, kd_piece, kd_last_piece, kd_first = kd_pieces
    for kd_unit in kd_range(kd_piece, kd_last_piece):
        kd_first_x = kd_unit * kd_segment
        kd_last_x = kd_min(kd_first_x + kd_segment, kd_nx)
        for kd_y in kd_range(kd_first_y, kd_last_y):
            pass
"""
_BLOCK_UNITS = """
for kd_block in kd_range(kd_first, kd_last):
    kd_bx, kd_by, kd_bz = kd_block_place(kd_block, kd_gx, kd_gy, kd_gz)
"""


def units_loop(space: Space, body: list[ast.stmt]) -> ast.stmt:
    """Return the loop over units from ``kd_first`` to ``kd_last`` with `body`."""
    loop = ast.parse(_ELEMENT_UNITS if isinstance(space, ElementSpace) else _BLOCK_UNITS).body[0]
    for node in walk_here(loop):
        for attribute in ("lineno", "col_offset", "end_lineno", "end_col_offset"):
            node.__dict__.pop(attribute, None)
    unit = [node for node in walk_here(loop) if isinstance(node, ast.For)][-1]
    inner = _loops_over_warps(space, body) if isinstance(space, WarpSpace) else body
    unit.body = [*(node for node in unit.body if not isinstance(node, ast.Pass)), *inner]
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


def threads_of_call(space: Space) -> ast.expr:
    """Return how many threads a call runs, at most."""
    each: ast.expr = load("kd_segment")
    if isinstance(space, BlockSpace):
        each = ast.Constant(math.prod(space.block_dim))
    units = ast.BinOp(load("kd_last"), ast.Sub(), load("kd_first"))
    return ast.BinOp(units, ast.Mult(), each)
