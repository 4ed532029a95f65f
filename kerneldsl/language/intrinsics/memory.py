"""Declare arrays in memory: new ones, views with other elements, accesses with hints to caches.

References
----------
PTX ISA, section "Cache Operators"; CUDA C++ Programming Guide, sections "Load Functions Using Cache
Hints" and "Store Functions Using Cache Hints".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Effect, Intrinsic, IntrinsicGroup, Scope, Typing

__all__ = ["const", "load", "local", "packed", "shared", "store", "unpack", "view"]

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
            "Use a NumPy array from outside the kernel as a constant. On a GPU, the first 64 KiB "
            "of such arrays are in constant memory, which is fast if all lanes of a warp read one "
            "element. Otherwise use the array by its name.",
            Typing.CONSTANT,
            ("array",),
            Scope.GRID,
        )
    },
)


load = Intrinsic(
    "load",
    "Return array[index], with a hint to the GPU's caches. `'all'` caches it, `'global'` caches "
    "it in the L2 cache alone, `'again'` fetches it past the caches. `'streaming'` expects one "
    "read, `'last_use'` expects no further read.",
    Typing.ELEMENT,
    ("array", "index", "cache"),
    static=("cache",),
    defaults={"cache": "all"},
    choices={"cache": ("all", "global", "streaming", "last_use", "again")},
)
store = Intrinsic(
    "store",
    "Assign `value` to array[index], with a hint to the GPU's caches: `'all'` caches it, "
    "`'global'` caches it only in the L2 cache, `'streaming'` expects no read soon, `'through'` "
    "writes through to memory.",
    Typing.ELEMENT,
    ("array", "index", "value", "cache"),
    Scope.THREAD,
    static=("cache",),
    defaults={"cache": "all"},
    choices={"cache": ("all", "global", "streaming", "through")},
)


packed = Intrinsic(
    "packed",
    "Return a read-only array of the numbers that are packed along the last axis of an array of "
    "words: `numbers` is kd.int4, kd.uint4, kd.int2, kd.uint2 or kd.ternary.",
    Typing.PACKED,
    ("words", "numbers"),
    static=("numbers",),
)
unpack = Intrinsic(
    "unpack",
    "Unpack the numbers in a word, four to an int32, in bytes for kd.dot4, the first in the "
    "lowest byte. Return a tuple of two int32 (kd.int4) or four (kd.int2, kd.ternary); uint32 for "
    "kd.uint4 and kd.uint2.",
    Typing.UNPACK,
    ("word", "numbers"),
    static=("numbers",),
)
view = Intrinsic(
    "view",
    "View a contiguous array as vectors along its last axis, of a dtype such as kd.float32x4, in "
    "the same memory; the remainder at the end of a row is left out.",
    Typing.VIEW,
    ("array", "dtype"),
    static=("dtype",),
)
