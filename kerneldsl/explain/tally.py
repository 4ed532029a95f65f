"""Counts of a kernel: of each access, of each branch, and of its arithmetic."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import field, fields
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kerneldsl.explain.arrangements import Arrangement
from kerneldsl.explain.requests import (
    WARP_LANES,
    Integers,
    Mask,
    count_distinct,
    count_least_wavefronts,
    count_sectors,
    count_wavefronts,
)
from kerneldsl.explain.sites import Site
from kerneldsl.explain.threads import Threads
from kerneldsl.explain.values import Memory, Part, Space
from kerneldsl.ir.operations import Operation
from kerneldsl.planner.work import SECTOR_BYTES
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "AccessTally",
    "BranchTally",
    "DivisionTally",
    "FloatTally",
    "Tallies",
    "settled",
    "split_keys",
]

_BLOCK_BITS = 15


@dataclass(eq=False)
class AccessTally:
    """One place that reads or writes an array, over the whole grid."""

    #: The array.
    memory: Memory
    #: Source place of the access.
    site: Site
    #: The kind of access; an atomic operation is also a store.
    is_store: bool
    is_atomic: bool
    #: Bytes that a lane requests.
    itemsize: int
    #: Requests of warps.
    requests: float = 0.0
    #: Accesses of threads.
    lanes: float = 0.0
    #: Bytes that they request.
    asked_bytes: float = 0.0
    #: Sectors of 32 bytes that the requests touch, each counted once per request, and the distinct
    #: requested bytes in them.
    sectors: float = 0.0
    needed_bytes: float = 0.0
    #: Wavefronts of the requests to shared memory, and their number without conflicts.
    wavefronts: float = 0.0
    least_wavefronts: float = 0.0
    addresses: float = 0.0
    #: Elements between neighbouring lanes, if equal for all lanes.
    stride: int | None = None
    has_stride: bool = True
    #: Whether the index is read from an array. The counts are then those of evenly spread indices.
    depends_on_data: bool = False
    #: Whether a condition depends on array contents. The counts then include all threads that may
    #: access the array.
    is_uncertain: bool = False
    #: Wavefronts by layout of the array, for shared memory with conflicts.
    moved: defaultdict[Arrangement, float] = field(default_factory=lambda: defaultdict(float))
    low: int | None = None
    high: int = 0
    sets: list[NDArray[np.int64]] = field(default_factory=list)
    weight: float = 1.0
    #: Elements of a tile that each thread has on average.
    tile_share: Fraction | None = None
    #: Least and greatest index into global memory along each axis in the first interpreted block.
    #: ``None`` if unknown, empty if no lane is active.
    box: tuple[tuple[int, int], ...] | None = ()
    #: Whether some index was negative, and so counted from the end.
    wraps: bool = False
    #: Part of the record that is accessed, for a record or a field.
    part: Part | None = None
    #: Operations of this access, one for each call of a function.
    operations: dict[Operation, None] = field(default_factory=dict)

    @property
    def key(self) -> tuple[Any, ...]:
        """Key in :attr:`Tallies.accesses`."""
        return self.site.node, self.is_store, self.memory

    @property
    def element_bytes(self) -> int:
        """Bytes of what strides count: an element of the array, or what it is viewed as."""
        return self.itemsize if self.part is None else self.part.record_bytes

    def add(
        self,
        addresses: Integers,
        mask: Mask,
        threads: Threads,
        weight: float,
        nbytes: int | None = None,
        *,
        is_more: bool = False,
    ) -> None:
        """Count the requests of the warps with lanes in a mask.

        Each lane requests `nbytes`, by default an item. With `is_more` it requests more of the
        previous item.
        """
        nbytes = nbytes or self.itemsize
        by_warp = addresses.reshape(-1, WARP_LANES)
        at_work = mask.reshape(-1, WARP_LANES)
        is_asked = at_work.any(axis=1)
        weights: NDArray[np.float64] = threads.warp_weights * is_asked * weight
        self.requests += float(weights.sum())
        lanes = float(at_work.sum(axis=1) @ weights)
        self.asked_bytes += lanes * nbytes
        distinct = count_distinct(by_warp, at_work)
        if not is_more:
            self.lanes += lanes
            self.addresses += float(distinct @ weights)
        self.needed_bytes += float(distinct @ weights) * nbytes
        if self.has_stride:
            self._compare_lanes(by_warp, at_work[:, 1:] & at_work[:, :-1] & threads.neighbours)
        if self.memory.space is Space.SHARED:
            self.wavefronts += float(count_wavefronts(by_warp, at_work, nbytes) @ weights)
            least = count_least_wavefronts(at_work, nbytes)
            self.least_wavefronts += float(least @ weights)
        elif self.memory.space is Space.GLOBAL:
            sectors = count_sectors(by_warp, at_work, nbytes)
            self.sectors += float(sectors @ weights)
            self._remember(addresses, mask, threads, weight, nbytes)

    def add_moved(
        self,
        arrangement: Arrangement,
        addresses: Integers,
        mask: Mask,
        threads: Threads,
        weight: float,
    ) -> None:
        """Count what the wavefronts would be if the array's elements were arranged otherwise."""
        found = count_wavefronts(
            addresses.reshape(-1, WARP_LANES), mask.reshape(-1, WARP_LANES), self.itemsize
        )
        self.moved[arrangement] += float(found @ threads.warp_weights) * weight

    def _compare_lanes(self, addresses: Integers, neighbours: Mask) -> None:
        """Remember how far neighbouring lanes are apart, while that is the same for all."""
        apart = np.diff(addresses, axis=1)[neighbours]
        if not apart.size:
            return
        first = int(apart[0])
        is_same = not np.any(apart != first) and first % self.element_bytes == 0
        stride = first // self.element_bytes
        self.has_stride = is_same and self.stride in (None, stride)
        self.stride = stride if self.has_stride else None

    def _remember(
        self, addresses: Integers, mask: Mask, threads: Threads, weight: float, nbytes: int
    ) -> None:
        """Remember which sectors each block touches."""
        found = addresses[mask]
        if not found.size:
            return
        low, high = int(found.min()), int(found.max()) + nbytes
        self.low = low if self.low is None else min(self.low, low)
        self.high = max(self.high, high)
        self.weight = max(self.weight, weight)
        first = (found - self.memory.base) // SECTOR_BYTES
        keys = (first << _BLOCK_BITS) | threads.block_numbers[mask]
        self.sets.append(np.unique(keys))
        if len(self.sets) > 64:
            self.sets = [np.unique(np.concatenate(self.sets))]

    def widen(self, chosen: tuple[Any, ...] | None, mask: Mask, threads: Threads) -> None:
        """Widen the box by the indices of the active lanes; ``None`` if they depend on data."""
        if chosen is None or self.box is None:
            self.box = None
            return
        first = mask[: threads.lanes_per_block]
        if not first.any():
            return
        parts = [np.broadcast_to(each, mask.shape)[: first.size][first] for each in chosen]
        found = [(int(each.min()), int(each.max())) for each in parts]
        self.box = tuple(
            (min(low, old[0]), max(high, old[1]))
            for (low, high), old in zip(found, self.box or found, strict=True)
        )

    def sector_keys(self) -> NDArray[np.int64]:
        """Return the sectors that are touched, each with the number of the block that does."""
        return np.unique(np.concatenate(self.sets)) if self.sets else np.empty(0, np.int64)


def split_keys(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the sectors and the blocks of :meth:`AccessTally.sector_keys`."""
    return keys >> _BLOCK_BITS, keys & ((1 << _BLOCK_BITS) - 1)


@dataclass(eq=False)
class BranchTally:
    """A branch or a loop: the warps that reach it, and those with divergent lanes.

    For a loop, `lanes` counts the iterations of threads, and `slots` 32 times those of warps. For a
    branch, `lanes` counts the lanes on its sides, and `slots` 32 for each side that a warp takes.
    """

    site: Site
    is_loop: bool
    warps: float = 0.0
    divergent: float = 0.0
    entered: float = 0.0
    taken: float = 0.0
    lanes: float = 0.0
    slots: float = 0.0
    depends_on_data: bool = False

    @property
    def share(self) -> float:
        """Lanes at work, of those of the warps that execute it."""
        return self.lanes / self.slots if self.slots else 1.0


@dataclass(eq=False)
class DivisionTally:
    """A division or remainder of integers: its type, and how often threads do it."""

    site: Site
    dtype: str
    #: Whether the operands are unsigned and of at most 32 bits, so that the division has 32 bits.
    is_narrow: bool
    #: Whether all observed operands were from 0 to 2**32 - 1.
    fits: bool = True
    count: float = 0.0


@dataclass(eq=False)
class FloatTally:
    """An operation on floats: ``add``, ``sub``, ``mul``, ``div``, ``fma``, or a function's name."""

    site: Site
    dtype: str
    name: str
    #: Operations of a thread each time.
    times: Fraction = Fraction(1)
    #: Operations, one for each call of a function.
    operations: dict[Operation, None] = field(default_factory=dict)
    count: float = 0.0


@dataclass(eq=False)
class Tallies:
    """All that is counted of a launch."""

    #: Accesses by node, by whether they store, and by array: a function may be called with several.
    accesses: dict[tuple[Any, ...], AccessTally] = field(default_factory=dict)
    #: Branches by node.
    branches: dict[Any, BranchTally] = field(default_factory=dict)
    #: Floating-point operations by node, dtype and name.
    floats: dict[tuple[Any, ...], FloatTally] = field(default_factory=dict)
    #: Integer divisions and remainders by non-constant divisors, by node.
    divisions: dict[Any, DivisionTally] = field(default_factory=dict)
    #: Active lanes in statements, and the lanes of the warps that execute them.
    lanes: float = 0.0
    slots: float = 0.0
    #: Arrays that the kernel makes.
    made: dict[Any, Memory] = field(default_factory=dict)
    #: Operations that are not counted.
    left_out: set[str] = field(default_factory=set)
    #: Accesses that were interpreted, each for all lanes.
    steps: float = 0.0
    #: Whether loops are sampled: some iterations represent all.
    is_sampled: bool = False

    def settle(self) -> None:
        """Round counts that are integers except for the rounding of their sums."""
        counted: list[Any] = [
            self,
            *self.accesses.values(),
            *self.branches.values(),
            *self.divisions.values(),
            *self.floats.values(),
        ]
        for each in counted:
            for one in fields(each):
                value = getattr(each, one.name)
                if isinstance(value, float):
                    setattr(each, one.name, settled(value))
        for each in self.accesses.values():
            each.moved.update({key: settled(count) for key, count in each.moved.items()})


def settled(count: float) -> float:
    """Return the nearest integer if a count differs from it only by the rounding of its sum.

    Examples
    --------
    >>> settled(3145727.9999999944), settled(2.5)
    (3145728.0, 2.5)
    """
    nearest = round(count)
    return float(nearest) if math.isclose(count, nearest, rel_tol=1e-9, abs_tol=1e-9) else count
