"""From a kernel to the region that one worker runs for a block or an element."""

from __future__ import annotations

from kerneldsl.contract import Specialization
from kerneldsl.ir.decided import decide_branches
from kerneldsl.ir.frontend.read import read_function
from kerneldsl.ir.nonnegative import mark_indices
from kerneldsl.ir.operations import Function, Region
from kerneldsl.ir.ranges import INTERVALS
from kerneldsl.ir.rewriter import rewrite
from kerneldsl.ir.simplify import simplify
from kerneldsl.ir.typing import Typing
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.types import element_type, numba_types
from targets.cpu.regions.element_kernels import write_element_rows
from targets.cpu.regions.faults import place_faults
from targets.cpu.regions.fission import split_at_barriers
from targets.cpu.regions.grid_barriers import refuse_chains
from targets.cpu.regions.ids import guard_extent, id_patterns
from targets.cpu.regions.local_elements import name_elements
from targets.cpu.regions.row_regions import element_rows
from targets.cpu.regions.rows import axes_of_rows
from targets.cpu.regions.thread_rows import thread_rows, write_thread_rows
from targets.cpu.regions.tiles.place import place_tiles
from targets.cpu.regions.warps import WARP, runs_by_warps

__all__ = ["read_kernel"]


def read_kernel(spec: Specialization) -> tuple[Function, Region]:
    """Return the typed function of a kernel, and the region that runs for a block or an element."""
    if spec.traits.syncs_grid:
        refuse_chains(spec.unit)
    is_debug, by_warps = spec.options.debug, False
    kinds = numba_types(spec.kinds)
    for use in spec.unit.all_uses():
        if "dtype" in use.static:
            element_type(use.static["dtype"])
    # What these types register with Numba is known from here on.
    typing = host_contexts().typing_context
    function = read_function(spec.unit, kinds, typing, debug=is_debug, raises=True)
    decide_branches(function.body)
    if not is_debug:
        name_elements(function, wraparound=spec.options.wraparound)
    if is_debug:
        place_faults(function, axes_of_rows(spec) if spec.traits.uses_grid_only else None)
    if not spec.traits.uses_grid_only:
        assert spec.block_dim is not None
        place_tiles(function, spec, Typing.of(typing))
        if spec.mode.forall_ndim and not spec.traits.uses_block:
            guard_extent(function, Typing.of(typing), spec.mode.forall_ndim)
        by_warps = runs_by_warps(function, spec)
        rewrite(function.body, id_patterns(Typing.of(typing), spec, by_warps=by_warps))
    simplify(function.body)
    mark_indices(function, INTERVALS, wraparound=spec.options.wraparound)
    if spec.traits.uses_grid_only:
        if is_debug:
            element_rows(function, axes_of_rows(spec))
        else:
            write_element_rows(function, axes_of_rows(spec))
        return function, function.body
    assert spec.block_dim is not None
    region = split_at_barriers(function, spec, Typing.of(typing), by_warps=by_warps)
    if is_debug:
        thread_rows(region, spec.block_dim)
    else:
        write_thread_rows(region, WARP if by_warps else spec.block_dim, INTERVALS)
    return function, region
