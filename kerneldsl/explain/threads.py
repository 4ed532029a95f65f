"""The threads that are looked at: those of all blocks of a grid, or of some that stand for it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kerneldsl.contract import Dim3
from kerneldsl.explain.requests import WARP_LANES
from kerneldsl.planner.work import SECTOR_BYTES
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["MAX_LANES", "Threads"]

#: Lanes that are interpreted together.
MAX_LANES = 1 << 15
#: Most blocks of an edge of the grid that represent all of the edge.
_EDGE_BLOCKS = 4
#: Number of blocks along x after which their bytes begin at the same place in a sector again, for
#: any distance of two blocks in whole bytes.
_PERIOD = SECTOR_BYTES
_SEED = 20_161


@dataclass(frozen=True, eq=False)
class Threads:
    """Threads of some blocks, padded to whole warps."""

    #: Extents of a block in threads, and of the grid in blocks.
    block_dim: Dim3
    grid_dim: Dim3
    #: Coordinates of the interpreted blocks.
    block_places: NDArray[np.int64]
    #: Blocks of the grid that each of them represents.
    block_weights: NDArray[np.float64]

    @classmethod
    def of_launch(cls, grid_dim: Dim3, block_dim: Dim3, max_lanes: int = MAX_LANES) -> Threads:
        """Choose the blocks of a launch that are looked at.

        All of them if they have no more than `max_lanes` lanes. Else the first, the last and
        inner places along each axis, so that each block of an edge stands for that edge. Inner ones
        are drawn at random, the same at each call, and equally from each place in a sector that
        blocks may begin at.
        """
        lanes = -(-math.prod(block_dim) // WARP_LANES) * WARP_LANES
        most = max(1, max_lanes // lanes)
        if math.prod(grid_dim) <= most:
            places = np.array(list(itertools.product(*map(range, grid_dim))), np.int64)
            return cls(block_dim, grid_dim, places, np.ones(len(places)))
        axes = [_pieces(extent) for extent in grid_dim]
        strata = sorted(itertools.product(*axes), key=lambda each: math.prod(map(len, each)))
        random = np.random.default_rng(_SEED)
        edge = min(_EDGE_BLOCKS, max(1, most // 16))
        found: list[NDArray[np.int64]] = []
        weights = []
        for number, stratum in enumerate(strata):
            count = math.prod(map(len, stratum))
            is_last = number == len(strata) - 1
            wanted = max(1, most - sum(len(each) for each in found)) if is_last else edge
            for part in _phases(stratum, min(count, wanted)):
                share = math.prod(map(len, part))
                chosen = _draw(part, min(count, wanted) * share // count or 1, random)
                found.append(chosen)
                weights.append(np.full(len(chosen), share / len(chosen)))
        return cls(block_dim, grid_dim, np.concatenate(found), np.concatenate(weights))

    @classmethod
    def of_one_block(cls, grid_dim: Dim3, block_dim: Dim3) -> Threads:
        """Take the block in the middle of the grid alone."""
        middle = np.array([[extent // 2 for extent in grid_dim]], np.int64)
        return cls(block_dim, grid_dim, middle, np.ones(1))

    @property
    def is_whole(self) -> bool:
        """True if all blocks of the grid are looked at."""
        return len(self.block_places) == math.prod(self.grid_dim)

    @property
    def lanes_per_block(self) -> int:
        """Lanes of a block's warps."""
        return -(-math.prod(self.block_dim) // WARP_LANES) * WARP_LANES

    @property
    def lane_count(self) -> int:
        """Lanes that are looked at."""
        return self.lanes_per_block * len(self.block_places)

    @cached_property
    def thread_index(self) -> tuple[NDArray[np.int64], ...]:
        """``threadIdx`` along x, y and z, of each lane."""
        number = np.arange(self.lanes_per_block)
        x, y, _ = self.block_dim
        parts = (number % x, number // x % y, number // (x * y))
        return tuple(np.tile(part, len(self.block_places)) for part in parts)

    @cached_property
    def block_index(self) -> tuple[NDArray[np.int64], ...]:
        """``blockIdx`` along x, y and z, of each lane."""
        return tuple(
            np.repeat(self.block_places[:, axis], self.lanes_per_block) for axis in range(3)
        )

    @cached_property
    def exists(self) -> NDArray[np.bool_]:
        """Lanes that are threads, without those that fill up a block's last warp."""
        one = np.arange(self.lanes_per_block) < math.prod(self.block_dim)
        return np.tile(one, len(self.block_places))

    @cached_property
    def neighbours(self) -> NDArray[np.bool_]:
        """True where a lane follows the preceding one along x; the first of a warp has no entry."""
        along: NDArray[np.int64] = self.thread_index[0].reshape(-1, WARP_LANES)
        return np.equal(np.diff(along, axis=1), 1)

    @cached_property
    def warp_weights(self) -> NDArray[np.float64]:
        """Warps of the grid that each warp represents."""
        return np.repeat(self.block_weights, self.lanes_per_block // WARP_LANES)

    @cached_property
    def block_numbers(self) -> NDArray[np.int64]:
        """Number of each lane's block among the interpreted ones."""
        return np.repeat(np.arange(len(self.block_places)), self.lanes_per_block)

    def global_index(self, axis: int) -> NDArray[Any]:
        """Return the index along an axis of the grid, of each lane."""
        return self.block_index[axis] * self.block_dim[axis] + self.thread_index[axis]


def _pieces(extent: int) -> list[range]:
    """Cut an axis into its first place, its last one and those between."""
    pieces = [range(1), range(1, extent - 1), range(max(1, extent - 1), extent)]
    return [piece for piece in pieces if len(piece)]


def _phases(stratum: tuple[range, ...], wanted: int) -> list[tuple[range, ...]]:
    """Cut a box by where in a period its blocks lie along x, if each part can have some blocks."""
    x, *others = stratum
    if wanted < _PERIOD or len(x) < _PERIOD:
        return [stratum]
    return [(x[phase::_PERIOD], *others) for phase in range(_PERIOD)]


def _draw(stratum: tuple[range, ...], count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw different places of a box."""
    shape = tuple(map(len, stratum))
    total = math.prod(shape)
    # One place from each of `count` equal parts: the places are spread, and follow no pattern.
    edges = np.linspace(0, total, count + 1).astype(np.int64)
    chosen = random.integers(edges[:-1], np.maximum(edges[1:], edges[:-1] + 1))
    parts = np.unravel_index(chosen, shape)
    return np.stack(
        [piece.start + part * piece.step for part, piece in zip(parts, stratum, strict=True)],
        axis=1,
    )
