"""Declare loads and stores of an element with hints to caches.

References
----------
PTX ISA, section "Cache Operators"; CUDA C++ Programming Guide, sections "Load Functions Using Cache
Hints" and "Store Functions Using Cache Hints".
"""

from __future__ import annotations

from kerneldsl.language.intrinsics.intrinsic import Intrinsic, Scope, Typing

__all__ = ["load", "store"]

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
