"""In which shape a kernel is launched: grid and block, or an extent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kerneldsl.abi import EXPLICIT, LaunchMode
from kerneldsl.planner.choose import extent_class
from kerneldsl.runtime.streams import streams
from kerneldsl.runtime.together import ALONE, Together
from kerneldsl.target import Dim3

if TYPE_CHECKING:
    from kerneldsl.planner.plan import LaunchPlan

__all__ = ["LaunchShape"]

_FORALL = {ndim: LaunchMode(ndim) for ndim in (1, 2, 3)}


class LaunchShape:
    """Grid and block, or an extent, with stream and dynamic shared memory, already read."""

    __slots__ = (
        "block_dim",
        "extent",
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
        self.place = stream._place if isinstance(stream, streams.Stream) else None
        self.shared_bytes = shared_bytes
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
