"""The launch that an explanation is of: its block, its grid, and what ``grid`` gives in it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.contract import Dim3
from kerneldsl.explain.interpreter import MAX_ROUNDS, Interpreter
from kerneldsl.explain.lane_memory import ActiveLanes
from kerneldsl.explain.tally import Tallies
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import Memory, Value
from kerneldsl.ir.operations import Function
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["Launched", "Walked", "launched"]

#: Lanes that are interpreted together.
_MAX_LANES = 1 << 17
#: Approximate number of lanes' accesses that are interpreted.
_BUDGET = 3 << 19
#: Rounds of loops that are run for one block.
_FIRST_ROUNDS = 64
#: Blocks if none is given, by the axes of the grid.
_BLOCKS: dict[int, Dim3] = {1: (256, 1, 1), 2: (32, 8, 1), 3: (32, 4, 2)}


class Walked(NamedTuple):
    """Counts of a launch, the blocks that were run, and counts of one block, rearranged."""

    tallies: Tallies
    threads: Threads
    one_block: Tallies


@dataclass(frozen=True)
class Launched:
    """A launch."""

    #: Extents of a block in threads, and of the grid in blocks.
    block_dim: Dim3
    grid_dim: Dim3
    #: Extent of the launch; ``None`` for grid and block.
    extent: tuple[int, ...] | None
    #: The assumed block or grid, if it was not given.
    assumed: dict[str, Any]

    def interpret(
        self, function: Function, arguments: Sequence[Value], *, wraps: bool, shared_bytes: int
    ) -> Walked:
        """Run one block of the launch, then as many as that allows for.

        Where shared memory has conflicts, the one block is run again with other arrangements.
        """

        def walked(
            threads: Threads, rounds: int = MAX_ROUNDS, *, rearranges: bool = False
        ) -> Tallies:
            run = Interpreter(threads, wraps=wraps, rounds=rounds)
            run.shared_bytes, run.rearranges = shared_bytes, rearranges
            if self.extent is not None:
                axes = [threads.global_index(axis) for axis in range(len(self.extent))]
                run.indices = tuple(reversed(axes))
                inside = [axis < n for axis, n in zip(axes, reversed(self.extent), strict=True)]
                run.active = ActiveLanes(run.active.mask & np.all(inside, axis=0), threads)
            return run.interpret(function, arguments)

        middle = self.middle
        one = walked(middle, _FIRST_ROUNDS)
        steps = min(max(1, int(one.steps)), MAX_ROUNDS * len(one.accesses))
        lanes = min(_MAX_LANES, _BUDGET // max(1, steps))
        threads = Threads.of_launch(self.grid_dim, self.block_dim, lanes)
        tallies = walked(threads)
        accesses = tallies.accesses.values()
        conflicts = any(each.wavefronts > each.least_wavefronts for each in accesses)
        return Walked(
            tallies, threads, walked(middle, _FIRST_ROUNDS, rearranges=True) if conflicts else one
        )

    @property
    def middle(self) -> Threads:
        """The block in the middle of the grid, which is run by itself."""
        return Threads.of_one_block(self.grid_dim, self.block_dim)


def launched(
    traits: KernelTraits,
    arrays: Sequence[Memory],
    written: Sequence[Memory],
    *,
    block: Dim3 | None,
    grid: Dim3 | None,
    extent: tuple[int, ...] | None,
) -> Launched:
    """Return a launch, with the block or the grid that is not given.

    A grid covers the extent, or else the largest array that the kernel writes, its last axis along
    x.
    """
    assumed: dict[str, Any] = {}
    ndim = len(extent) if extent else max(traits.grid_ndims, default=1)
    if block is None:
        block = assumed["block"] = _BLOCKS[ndim]
    elif extent is None and not traits.grid_ndims:
        ndim = max(axis for axis in range(3) if axis == 0 or block[axis] > 1) + 1
    along = (*extent[::-1], 1, 1)[:3] if extent else _covered(written or arrays, ndim)
    if grid is None:
        x, y, z = (max(1, -(-n // b)) for n, b in zip(along, block, strict=True))
        grid = (x, y, z)
        if extent is None:
            assumed["grid"] = grid
    return Launched(block, grid, extent, assumed)


def _covered(arrays: Sequence[Memory], ndim: int) -> tuple[int, int, int]:
    """Return the extents of the largest array along x, y and z."""
    largest = max(arrays, key=lambda each: math.prod(each.shape), default=None)
    shape = largest.shape if largest is not None else ()
    if ndim == 1 or len(shape) < ndim:
        return math.prod(shape), 1, 1
    x, y, z = (*shape[::-1], 1, 1)[:3]
    if ndim == 2:
        return x, y * math.prod(shape[:-2]), 1
    return x, y, z
