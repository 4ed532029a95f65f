"""Compute together what the threads of a warp or a block have: by shuffles, by one value a warp.

The lanes that reach an operation together take part (`lanes`); a block's threads that have returned
do not (`threads`). Values of a warp meet in a tree over its lanes, in log2(32) shuffles; those of a
block's warps are in shared memory, where every thread combines them one after the other
(`combine`). `table` lists the operations. Nothing is imported here.
"""

from __future__ import annotations

__all__: list[str] = []
