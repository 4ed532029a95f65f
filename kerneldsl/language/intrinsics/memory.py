"""Declare shared, local and constant arrays."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["const", "local", "shared"]


shared = IntrinsicGroup(
    "shared",
    {
        "array": Intrinsic(
            "shared.array",
            "An array that the threads of one block share, with undefined initial contents. Shape"
            " 0 is the dynamic shared memory, with the size that the launch gives.",
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
            "A private array of this thread, with undefined initial contents.",
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
            "A NumPy array from outside the kernel, as a constant. The name of the array alone is"
            " equivalent.",
            Typing.CONSTANT,
            ("array",),
            Scope.GRID,
        )
    },
)
