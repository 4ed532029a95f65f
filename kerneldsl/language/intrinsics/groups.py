"""Declare collective operations of the threads of a warp or a block.

Every operation has two forms: ``kd.warp.sum(x)`` among the lanes of a warp and ``kd.block.sum(x)``
among the threads of a block. Values are combined in the same order on every target, so that results
have the same bits. The lanes of a warp are combined in a binary tree, neighbours first. The results
of a block's warps are combined one after the other. Threads that take no part are left out.

References
----------
CUDA C++ Programming Guide, sections "Warp Reduce Functions" and "Coalesced Groups"; J. Sklansky,
"Conditional-Sum Addition Logic", IRE Transactions on Electronic Computers 9 (1960), for the tree of
the scans.
"""

from __future__ import annotations

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["block", "warp"]  # what is listed here is of the language

#: Bytes of shared memory for the results of warps: 16 for each of 32, and which have arrived.
GROUP_SLOTS_BYTES = 32 * 16 + 16
#: Bytes in which each of 1024 threads gives 32 bits to another one.
GROUP_WORDS_BYTES = 1024 * 4
#: Operations in which threads of a block do that.
_WITH_WORDS = ("exchange", "sort")

#: dtypes that have an order; floating-point numbers of 8 bits are for storage alone.
ORDERED = tuple(
    row.name
    for row in ELEMENT_TYPES.values()
    if row.is_integer or (row.is_float and row.nbytes > 1)
)
#: dtypes that can be added; a truth value counts as 0 or 1.
_ADDED = ("bool", *ORDERED, *(row.name for row in ELEMENT_TYPES.values() if row.is_complex))


#: Threads that a warp has, and that a block can have on any target.
_MAX_THREADS = {Scope.WARP: 32, Scope.BLOCK: 1024}


def _members(scope: Scope) -> dict[str, Intrinsic]:
    """Return the operations of a group."""
    group = scope.name.lower()
    threads = {Scope.WARP: "the warp's lanes", Scope.BLOCK: "the block's threads"}[scope]
    who = {Scope.WARP: "lane", Scope.BLOCK: "thread"}[scope]
    members: dict[str, Intrinsic] = {}

    def declare(
        name: str,
        summary: str,
        typing: Typing,
        parameters: tuple[str, ...],
        uniform_in: Scope,
        dtypes: tuple[str, ...] = (),
        defaults: dict[str, None] | None = None,
        below: dict[str, int] | None = None,
    ) -> None:
        is_shared = scope is Scope.BLOCK and bool(dtypes)  # votes are the barrier's own
        members[name] = Intrinsic(
            f"{group}.{name}",
            summary,
            typing,
            parameters,
            uniform_in,
            Effect.BARRIER,
            scope,
            dtypes,
            defaults=dict(defaults or {}),
            functions=("op",) if "op" in parameters else (),
            shared_bytes=is_shared * GROUP_SLOTS_BYTES
            + (is_shared and name in _WITH_WORDS) * GROUP_WORDS_BYTES,
            below=dict(below or {}),
        )

    declare("sum", f"Return the sum of `x` over {threads}.", Typing.SUM, ("x",), scope, _ADDED)
    for name, size in (("max", "largest"), ("min", "smallest")):
        summary = f"Return the {size} `x` of {threads}; NaN is ignored unless all are NaN."
        declare(name, summary, Typing.EXTREME, ("x",), scope, ORDERED)
    for name, summary, typing in (
        ("any", f"Return whether any of {threads} has a nonzero predicate.", Typing.TRUTH),
        ("all", f"Return whether all of {threads} have a nonzero predicate.", Typing.TRUTH),
        ("count", f"Return how many of {threads} have a nonzero predicate.", Typing.VOTE),
    ):
        declare(name, summary, typing, ("predicate",), scope)
    declare(
        "reduce",
        f"Combine the `x` of {threads} by `op(a, b)`, which must be associative.",
        Typing.REDUCE,
        ("x", "op"),
        scope,
        _ADDED,
    )
    declare(
        "inclusive_scan",
        f"Return the sum of `x` over {threads} up to and including this {who}, or their "
        "combination by `op(a, b)`.",
        Typing.SCAN,
        ("x", "op"),
        Scope.THREAD,
        _ADDED,
        {"op": None},
    )
    declare(
        "exclusive_scan",
        f"Return the sum of `initial` and `x` over {threads} before this {who}, or their "
        "combination by `op(a, b)`.",
        Typing.SCAN,
        ("x", "op", "initial"),
        Scope.THREAD,
        _ADDED,
        {"op": None, "initial": None},
    )
    declare(
        "broadcast",
        f"Return the `x` of {who} `source`, which must call it too; `source` must be the same in "
        f"all of {threads}.",
        Typing.EXCHANGE,
        ("x", "source"),
        scope,
        _ADDED,
        below={"source": _MAX_THREADS[scope]},
    )
    declare(
        "exchange",
        f"Return the `x` of {who} `source`, or this {who}'s `x` if `source` does not call it.",
        Typing.EXCHANGE,
        ("x", "source"),
        Scope.THREAD,
        _ADDED,
    )
    declare(
        "sort",
        f"Sort the `keys` of {threads}: the first {who} gets the smallest key, the second the "
        "next, NaN last. With `values`, return the key and its value. Equal keys keep their "
        "order.",
        Typing.SORT,
        ("keys", "values"),
        Scope.THREAD,
        ORDERED,
        {"values": None},
    )
    return members


warp = IntrinsicGroup("warp", _members(Scope.WARP))
block = IntrinsicGroup("block", _members(Scope.BLOCK))
