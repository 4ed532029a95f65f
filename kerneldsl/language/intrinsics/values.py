"""Declare what is computed from one thread's values alone."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing

__all__ = ["popc", "uniform"]


popc = Intrinsic("popc", "The number of bits of `value` that are 1.", Typing.BITS, ("value",))
uniform = Intrinsic(
    "uniform",
    "Promise that the value is the same in every thread of the block.",
    Typing.VALUE,
    ("value",),
    Scope.BLOCK,
)
