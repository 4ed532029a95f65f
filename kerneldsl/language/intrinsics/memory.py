"""Declare shared, local and constant arrays."""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["const", "local", "shared"]


shared = IntrinsicGroup(
    "shared",
    {
        "array": Intrinsic(
            "shared.array",
            "Allocate an array that the threads of a block share; its elements are undefined. "
            "Shape 0 is the dynamic shared memory; the launch gives its size. `alignment` is in "
            "bytes, for a GPU.",
            Typing.ARRAY,
            ("shape", "dtype", "alignment"),
            Scope.BLOCK,
            effect=Effect.ALLOCATE_SHARED,
            static=("shape", "dtype", "alignment"),
            defaults={"alignment": None},
        )
    },
)
local = IntrinsicGroup(
    "local",
    {
        "array": Intrinsic(
            "local.array",
            "Allocate an array of this thread; its elements are undefined. `dtype` may be that of "
            "a value, `x.dtype`. `alignment` is in bytes, for a GPU.",
            Typing.ARRAY,
            ("shape", "dtype", "alignment"),
            Scope.THREAD,
            effect=Effect.ALLOCATE_LOCAL,
            static=("shape", "dtype", "alignment"),
            defaults={"alignment": None},
        )
    },
)
const = IntrinsicGroup(
    "const",
    {
        "array_like": Intrinsic(
            "const.array_like",
            "Use a NumPy array from outside the kernel as a constant. Its name does the same. On a "
            "GPU, up to 64 KiB of such arrays are in constant memory. A warp reads one address "
            "of it at a time.",
            Typing.CONSTANT,
            ("array",),
            Scope.GRID,
        )
    },
)
