"""Declare barriers of a block, warp or grid, and memory fences.

References
----------
CUDA C++ Programming Guide, sections "Synchronization Functions" and "Memory Fence Functions".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = [
    "grid_group",
    "syncthreads",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "syncwarp",
    "threadfence",
    "threadfence_block",
    "threadfence_system",
]


syncthreads = Intrinsic(
    "syncthreads",
    "Wait until every thread of the block arrives; their earlier writes are visible then.",
    Typing.NOTHING,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_count = Intrinsic(
    "syncthreads_count",
    "Synchronize the block, and return the number of threads with a nonzero predicate.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_and = Intrinsic(
    "syncthreads_and",
    "Synchronize the block, and return 1 if the predicate of every thread is nonzero, else 0.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_or = Intrinsic(
    "syncthreads_or",
    "Synchronize the block, and return 1 if the predicate of any thread is nonzero, else 0.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncwarp = Intrinsic(
    "syncwarp",
    "Wait until the lanes of `mask` (by default all) arrive; their earlier writes are visible "
    "then.",
    Typing.NOTHING,
    ("mask",),
    effect=Effect.BARRIER,
    scope=Scope.WARP,
    defaults={"mask": 0xFFFFFFFF},
)
threadfence = Intrinsic(
    "threadfence",
    "Order this thread's memory accesses for every thread of the device.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)
threadfence_block = Intrinsic(
    "threadfence_block",
    "Order this thread's memory accesses for the threads of its block.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)
threadfence_system = Intrinsic(
    "threadfence_system",
    "Order this thread's memory accesses for every thread of every device, and for the host.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)


# References: CUDA C++ Programming Guide, section "Grid Synchronization" of "Cooperative
# Groups".
class _GridGroup(IntrinsicGroup):
    """All threads of a launch. Write ``kd.grid_group().sync()``, as in numba.cuda."""

    def __call__(self) -> _GridGroup:
        """Return the group; it works only in a kernel."""
        return self


grid_group = _GridGroup(
    "grid_group",
    {
        "sync": Intrinsic(
            "grid_group.sync",
            "Wait until every thread of the launch arrives; their earlier writes are visible "
            "then. Write `kd.grid_group().sync()` in a kernel.",
            Typing.NOTHING,
            effect=Effect.BARRIER | Effect.FENCE,
            scope=Scope.GRID,
        ),
    },
)
