"""Declare shared, local and constant arrays."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["const", "local", "shared"]


shared = IntrinsicGroup(
    "shared",
    {
        "array": Intrinsic(
            "shared.array",
            "An array that the threads of one block share; its contents start undefined. Shape 0 "
            "is the dynamic shared memory whose size the launch gives.",
            Typing.ARRAY,
            ("shape", "dtype"),
            Scope.BLOCK,
            effect=Effect.ALLOCATE_SHARED,
            static=("shape", "dtype"),
        )
    },
)
local = IntrinsicGroup(
    "local",
    {
        "array": Intrinsic(
            "local.array",
            "An array of this thread's own; its contents start undefined.",
            Typing.ARRAY,
            ("shape", "dtype"),
            Scope.THREAD,
            effect=Effect.ALLOCATE_LOCAL,
            static=("shape", "dtype"),
        )
    },
)
const = IntrinsicGroup(
    "const",
    {
        "array_like": Intrinsic(
            "const.array_like",
            "A NumPy array from outside the kernel, as a constant; naming the array is the same.",
            Typing.CONSTANT,
            ("array",),
            Scope.GRID,
        )
    },
)
