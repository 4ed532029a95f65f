"""In which shape a kernel is launched: grid and block, or an extent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kerneldsl.abi import EXPLICIT, LaunchMode
from kerneldsl.launch.together import ALONE, Together
from kerneldsl.planner.candidates import block_shapes
from kerneldsl.planner.extent_classes import extent_class, grid_ends
from kerneldsl.runtime.streams.current import BaseStream
from kerneldsl.target import DeviceLimits, Dim3

if TYPE_CHECKING:
    from kerneldsl.planner.plan import LaunchPlan

__all__ = ["LaunchShape"]

_FORALL = {ndim: LaunchMode(ndim) for ndim in (1, 2, 3)}


class LaunchShape:
    """Grid and block, or an extent, with stream and dynamic shared memory, already read."""

    __slots__ = (
        "_planned_within",
        "block_dim",
        "extent",
        "forall_ndim",
        "grid_dim",
        "key",
        "mode",
        "place",
        "plan",
        "planned_for",
        "shared_bytes",
        "stream",
        "tile",
        "together",
    )

    def __init__(
        self,
        grid_dim: Dim3 | None,
        block_dim: Dim3 | None,
        extent: tuple[int, ...] | None,
        stream: Any,
        shared_bytes: int,
        plan: LaunchPlan | None = None,
        tile: Dim3 | None = None,
        together: Together = ALONE,
    ) -> None:
        self.grid_dim = grid_dim
        self.block_dim = block_dim
        self.extent = extent
        self.stream = stream
        #: Where the stream is, for a launch whose arguments may be anywhere.
        self.place = stream._place if isinstance(stream, BaseStream) else None
        self.shared_bytes = shared_bytes
        #: Rank of the extent; ``None`` for grid and block.
        self.forall_ndim = None if extent is None else len(extent)
        self.mode = EXPLICIT if extent is None else _FORALL[len(extent)]
        self.plan = plan
        #: Indices of the extent that a block serves, where that is not one for each thread.
        self.tile = tile
        #: Which blocks run at the same time.
        self.together = together
        #: What is planned for: a class of extents, or the block and mapping of a given plan.
        self.planned_for: Any = None
        if plan is not None:
            self.planned_for = (plan.block_dim, plan.mapping, plan.host)
        elif extent is not None:
            self.planned_for = extent_class(extent)
        self.key = (grid_dim, block_dim, extent, shared_bytes, self.planned_for, tile, together)
        #: The same for blocks of one index a thread, and the limits of a device that it is for.
        self._planned_within: tuple[DeviceLimits | None, Any] = (None, None)

    def planned_within(self, limits: DeviceLimits) -> Any:
        """What is planned for where threads do not walk on: classes end where grids do."""
        if self.plan is not None or self.extent is None:
            return self.planned_for
        known = self._planned_within
        if known[0] is not limits:
            ends = grid_ends(self.blocks_within(limits), limits.max_grid_dim)
            self._planned_within = known = (limits, extent_class(self.extent, ends))
        return known[1]

    def blocks_within(self, limits: DeviceLimits) -> Sequence[Dim3]:
        """The blocks that the launch may have: the one that is given, or all that are tried."""
        if self.block_dim is not None:
            return (self.block_dim,)
        assert self.extent is not None
        return tuple(block_shapes(len(self.extent), limits, limits.max_threads_per_block))
