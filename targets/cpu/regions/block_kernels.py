"""The rewrites of a kernel that has blocks: what one worker runs for each of them."""

from __future__ import annotations

from kerneldsl.contract import Specialization
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Region
from kerneldsl.ir.ranges import INTERVALS
from kerneldsl.ir.rewriter import rewrite
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.typing import Typing
from targets.cpu.regions.fission import split_at_barriers
from targets.cpu.regions.ids import guard_extent, id_patterns
from targets.cpu.regions.thread_rows import thread_rows, write_thread_rows
from targets.cpu.regions.tiles.place import place_tiles
from targets.cpu.regions.warps import WARP, runs_by_warps

__all__ = ["block_region"]


def block_region(function: Function, spec: Specialization, typing: Typing) -> Region:
    """Return the region of a function, which is rewritten in place."""
    assert spec.block_dim is not None
    place_tiles(function, spec, typing)
    if spec.mode.forall_ndim and not spec.traits.uses_block:
        guard_extent(function, typing, spec.mode.forall_ndim)
    by_warps = runs_by_warps(function, spec)
    rewrite(function.body, id_patterns(typing, spec, by_warps=by_warps))
    simplify(function.body)
    mark_indices(function, INTERVALS, wraparound=spec.options.wraparound)
    region = split_at_barriers(function, spec, typing, by_warps=by_warps)
    if spec.options.debug:
        thread_rows(region, spec.block_dim)
    else:
        write_thread_rows(region, WARP if by_warps else spec.block_dim, INTERVALS)
    return region
