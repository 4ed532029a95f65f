"""Declare what the lanes of a warp do together: shuffles, votes, matches and reductions.

References
----------
CUDA C++ Programming Guide, sections "Warp Shuffle Functions", "Warp Vote Functions", "Warp Match
Functions" and "Warp Reduce Functions".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, Scope, Typing

__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "ballot_sync",
    "eq_sync",
    "lanemask_lt",
    "match_all_sync",
    "match_any_sync",
    "reduce_add_sync",
    "reduce_and_sync",
    "reduce_max_sync",
    "reduce_min_sync",
    "reduce_or_sync",
    "reduce_xor_sync",
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
eq_sync = _warp_vote(
    "eq_sync",
    "Whether the predicates of all lanes of `mask` are not zero, or all are zero.",
    Typing.WARP_VOTE,
)

lanemask_lt = Intrinsic(
    "lanemask_lt", "The lanes below this one, as a mask.", Typing.LANE_MASK, uniform_in=Scope.THREAD
)
activemask = Intrinsic(
    "activemask",
    "The lanes of the warp that are here now, as a mask; no lane waits for another one.",
    Typing.LANE_MASK,
    uniform_in=Scope.THREAD,
    effect=Effect.BARRIER,
    scope=Scope.WARP,
)


def _of_values(
    name: str, summary: str, typing: Typing, uniform_in: Scope | None = Scope.WARP
) -> Intrinsic:
    return Intrinsic(
        name,
        f"{summary} All lanes of `mask` must call it together, and `mask` must name the calling "
        "lane.",
        typing,
        ("mask", "value"),
        uniform_in,
        Effect.BARRIER,
        Scope.WARP,
    )


match_any_sync = _of_values(
    "match_any_sync",
    "The lanes of `mask` whose value has the bits of this lane's, as a mask.",
    Typing.MATCH_ANY,
    None,
)
match_all_sync = _of_values(
    "match_all_sync",
    "`mask` and True if the values of all its lanes have the same bits, else 0 and False.",
    Typing.MATCH_ALL,
)


def _reduction(operation: str, what: str, typing: Typing = Typing.REDUCTION) -> Intrinsic:
    return _of_values(f"reduce_{operation}_sync", f"{what} of all lanes of `mask`.", typing)


reduce_add_sync = _reduction(
    "add",
    "The sum of the values; floats are added pair by pair, first lanes 16 apart, then 8, 4, 2 and "
    "1,",
)
reduce_min_sync = _reduction(
    "min", "The least of the values, -0 below 0, where a NaN yields to a number,"
)
reduce_max_sync = _reduction(
    "max", "The greatest of the values, 0 above -0, where a NaN yields to a number,"
)
reduce_and_sync = _reduction("and", "The bitwise and of the values", Typing.INTEGER_REDUCTION)
reduce_or_sync = _reduction("or", "The bitwise or of the values", Typing.INTEGER_REDUCTION)
reduce_xor_sync = _reduction("xor", "The bitwise xor of the values", Typing.INTEGER_REDUCTION)
