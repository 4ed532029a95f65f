"""Elements in rising order, by sorting tiles and merging them two by two.

References
----------
Nadathur Satish, Mark Harris and Michael Garland, "Designing Efficient Sorting Algorithms for
Manycore GPUs", IPDPS 2009: merging by the rank of each element in the other part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, allocate, computing_dtype
from stdlib_kernels.reduce.extremes import most

__all__ = ["sorted_copy"]

#: Elements of a tile, and threads of its block.
TILE, BLOCK = 4096, 256


@kd.kernel
def sort_tiles(x, out, *, number, last):
    """Sort each tile: ``x[n], out[n]``; `last` comes behind all elements."""
    at = kd.blockIdx.x * TILE
    kd.tile.store(out, at, kd.tile.load(x, at, TILE, other=last, dtype=number).sort())


def _is_before(a: Any, b: Any) -> Any:
    return a < b or (b != b and a == a)  # noqa: PLR0124 - NaN come last


@kd.kernel(wraparound=False)
def merge_pairs(x, out, width):
    """Merge sorted parts of `width` elements two by two: ``x[n], out[n]``."""
    i = kd.grid(1)
    if i < x.size:
        v, part = x[i], i // width
        other = min((part ^ 1) * width, x.size)
        low, high = other, min(other + width, x.size)
        while low < high:
            middle = (low + high) // 2
            # Of equal elements those of the first part come first.
            w = x[middle]
            if _is_before(w, v) or (part % 2 == 1 and not _is_before(v, w)):
                low = middle + 1
            else:
                high = middle
        out[part // 2 * 2 * width + i % width + low - other] = v


def sorted_copy(x: Array) -> Array:
    """Return the elements of an array of one axis in rising order, NaN last."""
    n = x.size
    number = np.dtype(np.uint8) if x.dtype.kind == "b" else x.dtype
    wide = computing_dtype(number)
    last = most(wide) if wide.kind in "iu" else wide.type(np.nan)
    parts = [allocate(x, (n,), x.dtype) for _ in range(2)]
    if n:
        sort_tiles[-(-n // TILE), BLOCK](x, parts[0], number=number.type, last=last)
    width = TILE
    while width < n:
        merge_pairs.forall(n)(parts[0], parts[1], width)
        parts.reverse()
        width *= 2
    return parts[0]
