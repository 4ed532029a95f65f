"""Shape of a launch: grid and block, or an extent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import DeviceLimits, Dim3
from kerneldsl.contract.abi import EXPLICIT, LaunchMode
from kerneldsl.launch.attributes import NO_ATTRIBUTES, LaunchAttributes
from kerneldsl.launch.tuning_policy import RECORDS_ALONE, TuningPolicy, policy_scope
from kerneldsl.planner.candidates import block_shapes, extent_class, grid_ends
from kerneldsl.streams.current import BaseStream

if TYPE_CHECKING:
    from kerneldsl.planner.plan import LaunchPlan
    from kerneldsl.planner.space import Member, Space

__all__ = ["LaunchShape"]

_FORALL = {ndim: LaunchMode(ndim) for ndim in (1, 2, 3)}


class LaunchShape:
    """Grid and block, or an extent, with stream and dynamic shared memory, already read.

    The shape of a kernel with a space has the space and no block. The shape that :meth:`of` makes
    of it has a member.
    """

    __slots__ = (
        "_planned_within",
        "_shapes",
        "block_dim",
        "device",
        "extent",
        "forall_ndim",
        "grid_dim",
        "key",
        "launch_attributes",
        "member",
        "mode",
        "plan",
        "planned_for",
        "shared_bytes",
        "space",
        "stream",
        "threads",
        "tile",
        "tuning",
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
        launch_attributes: LaunchAttributes = NO_ATTRIBUTES,
        *,
        space: Space | None = None,
        member: Member | None = None,
    ) -> None:
        self.grid_dim = grid_dim
        self.block_dim = block_dim
        self.extent = extent
        self.stream = stream
        #: Device of the stream, for launches with arguments on any device.
        self.device = stream.device if isinstance(stream, BaseStream) else None
        self.shared_bytes = shared_bytes
        #: Rank of the extent; ``None`` for grid and block.
        self.forall_ndim = None if extent is None else len(extent)
        #: Along each axis, of an explicit launch.
        self.threads: tuple[int, ...] = ()
        if extent is None and grid_dim is not None and block_dim is not None:
            self.threads = tuple(g * b for g, b in zip(grid_dim, block_dim, strict=True))
        self.mode = EXPLICIT if extent is None else _FORALL[len(extent)]
        self.plan = plan
        #: Indices of the extent that a block serves, if that is not one for each thread.
        self.tile = tile
        #: Concurrency of the blocks.
        self.launch_attributes = launch_attributes
        #: The kernel's space, while the member is open; the member, once it is not.
        self.space = space
        self.member = member
        #: Tuning of the kernel's launches, if ``@kd.tune`` sets it.
        self.tuning: TuningPolicy | None = None
        #: Key of planning: a class of extents, or the block and mapping of a given plan.
        self.planned_for: Any = None
        if plan is not None:
            self.planned_for = (plan.block_dim, plan.mapping, plan.host)
        elif extent is not None:
            self.planned_for = extent_class(extent)
        self.key = (
            grid_dim,
            block_dim,
            extent,
            shared_bytes,
            self.planned_for,
            tile,
            launch_attributes,
        )
        #: Limits of a device, and the key of planning for blocks of one index a thread within them.
        self._planned_within: tuple[DeviceLimits | None, Any] = (None, None)
        #: Shapes of members, for this extent.
        self._shapes: dict[Member, LaunchShape] = {}

    @property
    def is_repeatable(self) -> bool:
        """True if native code may repeat a launch of this shape."""
        return True

    @property
    def policy(self) -> TuningPolicy:
        """The policy of tuning for a launch in this context."""
        chosen = policy_scope.in_context.get() or self.tuning or policy_scope.process_wide
        return RECORDS_ALONE if chosen is None else chosen

    def first_tuning(self) -> TuningPolicy | None:
        """Return the policy if it gives a first launch time, and there is anything to choose."""
        if self.extent is None or self.plan is not None or self.member is not None:
            return None
        policy = self.policy
        return policy if policy.budget.seconds > 0.0 else None

    def of(self, member: Member, extent: tuple[int, ...] | None = None) -> LaunchShape:
        """Return the shape in which a member of the space is launched, by default with this extent.

        For the same member and this extent it is one object.
        """
        known = self._shapes.get(member) if extent is None else None
        if known is not None:
            return known
        assert self.space is not None
        made = LaunchShape(
            None,
            member.block_dim,
            extent or self.extent,
            self.stream,
            self.space.shared_bytes(member),
            self.plan,
            self.space.tile(member),
            self.launch_attributes,
            member=member,
        )
        made.tuning = self.tuning
        if extent is None:
            self._shapes[member] = made
        return made

    def within(self, space: Space) -> LaunchShape:
        """Return the same shape with the member open among fewer."""
        made = self.in_stream(self.stream)
        made.space = space
        return made

    def in_stream(self, stream: Any) -> LaunchShape:
        """Return the same shape in another stream, where a plan for this device counts no more."""
        made = LaunchShape(
            self.grid_dim,
            self.block_dim,
            self.extent,
            stream,
            self.shared_bytes,
            tile=self.tile,
            launch_attributes=self.launch_attributes,
            space=self.space,
            member=self.member,
        )
        made.tuning = self.tuning
        return made

    def planned_within(self, limits: DeviceLimits) -> Any:
        """Return what is planned for where threads do not walk on: classes end where grids do."""
        if self.plan is not None or self.extent is None:
            return self.planned_for
        known = self._planned_within
        if known[0] is not limits:
            most, cluster_dim = limits.max_grid_dim, self.launch_attributes.cluster_dim
            if cluster_dim is not None:  # grids are made of whole ones
                x, y, z = (n // width * width for n, width in zip(most, cluster_dim, strict=True))
                most = x, y, z
            ends = grid_ends(self.blocks_within(limits), most)
            self._planned_within = known = (limits, extent_class(self.extent, ends))
        return known[1]

    def blocks_within(self, limits: DeviceLimits) -> Sequence[Dim3]:
        """Return the indices that each block which the launch may have serves."""
        if self.space is not None:
            return self.space.tiles
        if self.block_dim is not None:
            return (self.block_dim,)
        assert self.extent is not None
        return tuple(block_shapes(len(self.extent), limits, limits.max_threads_per_block))
