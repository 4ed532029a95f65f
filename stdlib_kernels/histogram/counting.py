"""Counting: each block into counters of its own, which are added to the common ones at the end.

Where there are too many counters for that, all blocks count in the common ones.

References
----------
Victor Podlozhnyuk, "Histogram calculation in CUDA", NVIDIA, 2007: one histogram a block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import Array, allocate, is_on_host

__all__ = ["between", "count_bins", "evenly", "itself"]

#: Bytes of a block's own counters at most.
OWN_BYTES = 1 << 15
#: Counters of a block, of which the first that are enough are taken: code is compiled for each.
WIDTHS = (256, 2048, 8192)
#: Elements that a block counts at least, and blocks at most.
MIN_CHUNK, MAX_BLOCKS = 1 << 14, 1024
#: Threads of a block on a GPU; on a host one goes over its part at the speed of its memory.
BLOCK = 256


@kd.kernel(wraparound=False)
def count_apart(
    x,
    y,
    weights,
    x_edges,
    y_edges,
    counts,
    chunk,
    *,
    width,
    block,
    counter,
    number,
    bin_of,
    is_weighted,
    are_pairs,
):
    """Count in the block's own counters and add these up; otherwise as `count_together`."""
    own = kd.shared.array(width, counter)
    t = kd.threadIdx.x
    for k in range(t, width, block):
        own[k] = 0
    kd.syncthreads()
    first = kd.blockIdx.x * chunk
    for i in range(first + t, min(first + chunk, x.size), block):
        k = bin_of(number(x[i]), x_edges)
        if are_pairs:
            j = bin_of(number(y[i]), y_edges)
            k = k * (y_edges.size - 1) + j if j >= 0 and k >= 0 else -1
        if k >= 0:
            kd.atomic.add(own, k, counter(weights[i]) if is_weighted else counter(1))
    kd.syncthreads()
    for k in range(t, counts.size, block):
        if own[k] != 0:
            kd.atomic.add(counts, k, own[k])


@kd.kernel(wraparound=False)
def count_together(
    x,
    y,
    weights,
    x_edges,
    y_edges,
    counts,
    *,
    counter,
    number,
    bin_of,
    is_weighted,
    are_pairs,
):
    """Count in ``counts[bins]``: ``x[n], y[n], weights[n]``, and the edges that `bin_of` looks at.

    `y` and its edges are read of pairs alone, and the weights where there are some.
    """
    i = kd.grid(1)
    if i < x.size:
        k = bin_of(number(x[i]), x_edges)
        if are_pairs:
            j = bin_of(number(y[i]), y_edges)
            k = k * (y_edges.size - 1) + j if j >= 0 and k >= 0 else -1
        if k >= 0:
            kd.atomic.add(counts, k, counter(weights[i]) if is_weighted else counter(1))


def itself(v: Any, edges: Any) -> Any:
    """Return the bin of an integer that is the bin's number."""
    return v


def evenly(v: Any, edges: Any) -> Any:
    """Return the bin between edges at even distances, -1 if there is none.

    The quotient may be off by a rounding, which the edges themselves correct.
    """
    bins = edges.size - 1
    low, high = edges[0], edges[bins]
    if not (v >= low and v <= high):
        return -1
    k = min(int((v - low) / (high - low) * bins), bins - 1)
    if v < edges[k]:
        return k - 1
    return k + 1 if k < bins - 1 and v >= edges[k + 1] else k


def between(v: Any, edges: Any) -> Any:
    """Return the bin between any rising edges, -1 if there is none."""
    low, high = 0, edges.size - 1
    if not (v >= edges[0] and v <= edges[high]):
        return -1
    while high - low > 1:
        middle = (low + high) // 2
        if v >= edges[middle]:
            low = middle
        else:
            high = middle
    return low


def count_bins(
    x: Array,
    x_edges: Array,
    bins: int,
    bin_of: Any,
    number: np.dtype[Any],
    *,
    weights: Array | None = None,
    y: Array | None = None,
    y_edges: Array | None = None,
) -> Array:
    """Count elements, or add up their weights, by bin.

    All arrays are on one device and of one axis. The result has int64, with weights float64.
    """
    counts = allocate(x, (bins,), np.dtype(np.int64 if weights is None else np.float64), zero=True)
    if not x.size:
        return counts
    arrays = (x, x if y is None else y, x if weights is None else weights)
    edges = (x_edges, x_edges if y_edges is None else y_edges)
    how = {
        "number": number.type,
        "bin_of": bin_of,
        "is_weighted": weights is not None,
        "are_pairs": y is not None,
    }
    own = np.dtype(np.int32 if weights is None else np.float64)
    width = next((each for each in WIDTHS if bins <= each), bins)
    if width * own.itemsize > OWN_BYTES:
        count_together.forall(x.size)(*arrays, *edges, counts, counter=counts.dtype.type, **how)
        return counts
    chunk = max(MIN_CHUNK, 4 * width, -(-x.size // MAX_BLOCKS))
    block = 1 if is_on_host(x) else BLOCK
    count_apart[-(-x.size // chunk), block](
        *arrays,
        *edges,
        counts,
        chunk,
        width=width,
        block=block,
        counter=own.type,
        **how,
    )
    return counts
