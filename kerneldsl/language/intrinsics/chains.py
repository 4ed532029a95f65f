"""Declare operations of blocks that process the parts of an array in order.

A block takes the number of its part when it starts. Blocks with earlier parts have then started as
well, so that waiting for them always ends, in any order of scheduling.

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
#: Elements for each block with which no two blocks publish into one sector of a cache, and the
#: elements of a sector.
CHAIN_SPREAD_WORDS, CHAIN_SECTOR = 6, 4


def _of_grid(
    name: str,
    summary: str,
    typing: Typing,
    parameters: tuple[str, ...],
    dtypes: tuple[str, ...] = (),
    defaults: dict[str, None] | None = None,
) -> Intrinsic:
    """Return an operation that each block of a launch does once, with all its threads."""
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
            "Return the number of this block's part: 0 for the first block of the launch that "
            f"calls it, then 1, 2, … `state` has {CHAIN_WORDS} int64 or uint64 for each block, 0 "
            f"before the first launch; with {CHAIN_SPREAD_WORDS}, blocks of a GPU wait less.",
            Typing.CHAIN_NEXT,
            ("state",),
        ),
        "publish": _of_grid(
            "publish",
            "Publish `value` to later blocks early. Call `before` later with the same `state`, "
            "`part`, `value` and `op`.",
            Typing.CHAIN_PUBLISH,
            ("state", "part", "value", "op"),
            ("bool", *ORDERED),
            {"op": None},
        ),
        "before": _of_grid(
            "before",
            "Return the sum of `initial` and `value` over all blocks with an earlier part, or "
            "their combination by `op(a, b)`. Every block must call it once.",
            Typing.CHAIN,
            ("state", "part", "value", "op", "initial"),
            ("bool", *ORDERED),
            {"op": None, "initial": None},
        ),
    },
)
