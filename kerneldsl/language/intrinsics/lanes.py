"""Declare operations of the lanes of a warp: shuffles, votes, matches and reductions.

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
        f"{summary} Without such a lane, return this lane's `value`. All lanes of `mask` must "
        "call it together, and `mask` must include the calling lane.",
        Typing.SHUFFLE,
        ("mask", "value", lane),
        effect=Effect.BARRIER,
        scope=Scope.WARP,
    )


shfl_sync = _shuffle(
    "shfl_sync", "Return `value` of lane `src_lane` (modulo 32) of the warp.", "src_lane"
)
shfl_up_sync = _shuffle(
    "shfl_up_sync", "Return `value` of the lane `delta` (modulo 32) below this one.", "delta"
)
shfl_down_sync = _shuffle(
    "shfl_down_sync", "Return `value` of the lane `delta` (modulo 32) above this one.", "delta"
)
shfl_xor_sync = _shuffle(
    "shfl_xor_sync", "Return `value` of lane `laneid ^ lane_mask` (modulo 32).", "lane_mask"
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
    "ballot_sync",
    "Return the lanes of `mask` with a nonzero predicate, as a mask.",
    Typing.BALLOT,
)
all_sync = _warp_vote(
    "all_sync",
    "Return whether the predicate of every lane of `mask` is nonzero.",
    Typing.WARP_VOTE,
)
any_sync = _warp_vote(
    "any_sync",
    "Return whether the predicate of any lane of `mask` is nonzero.",
    Typing.WARP_VOTE,
)
eq_sync = _warp_vote(
    "eq_sync",
    "Return whether the predicates of all lanes of `mask` are nonzero, or all are zero.",
    Typing.WARP_VOTE,
)

lanemask_lt = Intrinsic(
    "lanemask_lt",
    "Return the lanes below this one, as a mask.",
    Typing.LANE_MASK,
    uniform_in=Scope.THREAD,
)
activemask = Intrinsic(
    "activemask",
    "Return the active lanes of the warp, as a mask; no lane waits for another one.",
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
    "Return the lanes of `mask` with the same bits of `value` as this lane, as a mask.",
    Typing.MATCH_ANY,
    None,
)
match_all_sync = _of_values(
    "match_all_sync",
    "Return `mask` and True if the values of all its lanes have the same bits, else 0 and False.",
    Typing.MATCH_ALL,
)


def _reduction(operation: str, what: str, typing: Typing = Typing.REDUCTION) -> Intrinsic:
    return _of_values(
        f"reduce_{operation}_sync", f"Return the {what} of all lanes of `mask`.", typing
    )


reduce_add_sync = _reduction(
    "add",
    "sum of the values (floats pair by pair, first lanes 16 apart, then 8, 4, 2 and 1)",
)
reduce_min_sync = _reduction(
    "min", "smallest of the values (-0 is below 0, and NaN is ignored unless all are NaN)"
)
reduce_max_sync = _reduction(
    "max", "largest of the values (0 is above -0, and NaN is ignored unless all are NaN)"
)
reduce_and_sync = _reduction("and", "bitwise and of the values", Typing.INTEGER_REDUCTION)
reduce_or_sync = _reduction("or", "bitwise or of the values", Typing.INTEGER_REDUCTION)
reduce_xor_sync = _reduction("xor", "bitwise xor of the values", Typing.INTEGER_REDUCTION)
