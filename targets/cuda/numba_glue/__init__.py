"""Everything that reaches into Numba's internals: a Numba upgrade is felt here.

`target` registers the target and its two contexts, `callconv` says how our functions call each
other, `library` collects the LLVM modules, `dispatcher` compiles device functions and Numba's
overloads for us, `pipeline` runs Numba's passes, `ufuncs`, `complex_power` and `printing` replace
what Numba's own lowering does through Python or the C library.
"""

from __future__ import annotations

__all__: list[str] = []
