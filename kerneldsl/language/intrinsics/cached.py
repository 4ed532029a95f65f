"""Declare loads and stores of an element that say how caches should treat it.

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
    "The element, array[index], read with a hint to the GPU's caches: `'all'` keep it, `'global'` "
    "only the one of the device does, `'streaming'` it is likely read once, `'last_use'` it is not "
    "read again.",
    Typing.ELEMENT,
    ("array", "index", "cache"),
    static=("cache",),
    defaults={"cache": "all"},
    choices={"cache": ("all", "global", "streaming", "last_use")},
)
store = Intrinsic(
    "store",
    "Assign `value` to array[index], with a hint to the GPU's caches: `'all'` keep it, `'global'` "
    "only the one of the device does, `'streaming'` it is likely not read soon, `'through'` it is "
    "written through to memory.",
    Typing.ELEMENT,
    ("array", "index", "value", "cache"),
    Scope.THREAD,
    static=("cache",),
    defaults={"cache": "all"},
    choices={"cache": ("all", "global", "streaming", "through")},
)
