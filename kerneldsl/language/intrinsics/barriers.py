"""Declare barriers of a block or warp, and memory fences.

References
----------
CUDA C++ Programming Guide, sections "Synchronization Functions" and "Memory Fence Functions".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, Scope, Typing

__all__ = [
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
    "Wait until every thread of the block is here, and see what they wrote.",
    Typing.NOTHING,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_count = Intrinsic(
    "syncthreads_count",
    "A barrier that gives every thread the number of threads whose predicate is not zero.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_and = Intrinsic(
    "syncthreads_and",
    "A barrier that gives every thread 1 if every thread's predicate is not zero, else 0.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncthreads_or = Intrinsic(
    "syncthreads_or",
    "A barrier that gives every thread 1 if any thread's predicate is not zero, else 0.",
    Typing.VOTE,
    ("predicate",),
    uniform_in=Scope.BLOCK,
    effect=Effect.BARRIER,
    scope=Scope.BLOCK,
)
syncwarp = Intrinsic(
    "syncwarp",
    "Wait until the lanes of `mask` (all by default) are here, and see what they wrote.",
    Typing.NOTHING,
    ("mask",),
    effect=Effect.BARRIER,
    scope=Scope.WARP,
    defaults={"mask": 0xFFFFFFFF},
)
threadfence = Intrinsic(
    "threadfence",
    "Order this thread's memory accesses as every thread of the device sees them.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)
threadfence_block = Intrinsic(
    "threadfence_block",
    "Order this thread's memory accesses as the threads of its block see them.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)
threadfence_system = Intrinsic(
    "threadfence_system",
    "Order this thread's memory accesses as every thread of every device and the host sees them.",
    Typing.NOTHING,
    effect=Effect.FENCE,
)
