"""Declare what the lanes of a warp do together: shuffles and votes.

References
----------
CUDA C++ Programming Guide, sections "Warp Shuffle Functions" and "Warp Vote Functions".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, Scope, Typing

__all__ = [
    "all_sync",
    "any_sync",
    "ballot_sync",
    "shfl_down_sync",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_xor_sync",
]


def _shuffle(name: str, summary: str, lane: str) -> Intrinsic:
    return Intrinsic(
        name,
        f"{summary} A lane gets its own value back where there is no such lane. All lanes of "
        "`mask` must call it together, and `mask` must name the calling lane.",
        Typing.SHUFFLE,
        ("mask", "value", lane),
        effect=Effect.BARRIER,
        scope=Scope.WARP,
    )


shfl_sync = _shuffle(
    "shfl_sync", "The value of lane `src_lane` of the warp, taken modulo 32.", "src_lane"
)
shfl_up_sync = _shuffle(
    "shfl_up_sync", "The value of the lane that is `delta` (modulo 32) below this one.", "delta"
)
shfl_down_sync = _shuffle(
    "shfl_down_sync", "The value of the lane that is `delta` (modulo 32) above this one.", "delta"
)
shfl_xor_sync = _shuffle(
    "shfl_xor_sync", "The value of lane `laneid ^ lane_mask`, taken modulo 32.", "lane_mask"
)


def _warp_vote(name: str, summary: str, typing: Typing) -> Intrinsic:
    return Intrinsic(
        name,
        f"{summary} All lanes of `mask` must call it together, and `mask` must name the calling "
        "lane.",
        typing,
        ("mask", "predicate"),
        Scope.WARP,
        Effect.BARRIER,
        Scope.WARP,
    )


ballot_sync = _warp_vote(
    "ballot_sync", "The lanes of `mask` whose predicate is not zero, as a mask.", Typing.BALLOT
)
all_sync = _warp_vote(
    "all_sync", "Whether the predicate of every lane of `mask` is not zero.", Typing.WARP_VOTE
)
any_sync = _warp_vote(
    "any_sync", "Whether the predicate of any lane of `mask` is not zero.", Typing.WARP_VOTE
)
