"""Declare how the blocks of a grid work in order: each on a part that follows an earlier block's.

A block takes the number of its part when it starts, so that blocks with earlier parts have started
too, and waiting for them cannot last for ever, in whichever order blocks are scheduled.

References
----------
D. Merrill and M. Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA
Technical Report NVR-2016-002 (2016).
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.groups import GROUP_SLOTS_BYTES, ORDERED
from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["chain"]  # what is listed here is of the language

#: Elements of a state that each block of a launch needs.
CHAIN_WORDS = 3
#: Elements for each block from which on what one block publishes shares no sector of a cache, of
#: CHAIN_SECTOR elements, with what others do.
CHAIN_SPREAD_WORDS, CHAIN_SECTOR = 6, 4


def _of_grid(
    name: str,
    summary: str,
    typing: Typing,
    parameters: tuple[str, ...],
    dtypes: tuple[str, ...] = (),
    defaults: dict[str, None] | None = None,
) -> Intrinsic:
    """Return what each block of a launch does once, all of its threads together."""
    return Intrinsic(
        f"chain.{name}",
        summary,
        typing,
        parameters,
        Scope.BLOCK,
        Effect.BARRIER | Effect.READ | Effect.WRITE,
        Scope.GRID,
        dtypes,
        defaults=dict(defaults or {}),
        functions=("op",) if "op" in parameters else (),
        shared_bytes=GROUP_SLOTS_BYTES,
    )


chain = IntrinsicGroup(
    "chain",
    {
        "next": _of_grid(
            "next",
            "The number of this block's part: how many blocks of the launch have asked before. "
            f"`state` has {CHAIN_WORDS} int64 or uint64 for each block, 0 before the first launch; "
            f"with {CHAIN_SPREAD_WORDS}, blocks of a GPU wait less for each other.",
            Typing.CHAIN_NEXT,
            ("state",),
        ),
        "publish": _of_grid(
            "publish",
            "Lets later blocks have `value` while this block does something else, before it calls "
            "`before` with the same `state`, `part`, `value` and `op`.",
            Typing.CHAIN_PUBLISH,
            ("state", "part", "value", "op"),
            ("bool", *ORDERED),
            {"op": None},
        ),
        "before": _of_grid(
            "before",
            "The sum of `value` over all blocks with an earlier part, behind `initial`; or what "
            "`op(a, b)` makes of them. Every block calls it once.",
            Typing.CHAIN,
            ("state", "part", "value", "op", "initial"),
            ("bool", *ORDERED),
            {"op": None, "initial": None},
        ),
    },
)
