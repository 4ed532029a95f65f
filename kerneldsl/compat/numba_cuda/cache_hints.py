"""Loads and stores with hints to caches, as device functions of the one intrinsic for each."""

from __future__ import annotations

from kerneldsl.kernels.made_functions import made_functions
from kerneldsl.language.intrinsics.memory import load, store

#: The hint of each.
_LOADS = {"ldca": "all", "ldcg": "global", "ldcs": "streaming", "ldlu": "last_use", "ldcv": "again"}
_STORES = {"stcg": "global", "stcs": "streaming", "stwb": "all", "stwt": "through"}

_TEXT = "".join(
    f'def {name}(array, i):\n    """Load an element; the hint is {hint!r}."""\n'
    f"    return load(array, i, cache={hint!r})\n\n"
    for name, hint in _LOADS.items()
) + "".join(
    f'def {name}(array, i, value):\n    """Store an element; the hint is {hint!r}."""\n'
    f"    store(array, i, value, cache={hint!r})\n\n"
    for name, hint in _STORES.items()
)
globals().update(made_functions(_TEXT, __name__, {"load": load, "store": store}))
