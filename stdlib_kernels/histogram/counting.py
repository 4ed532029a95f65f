"""Counting: each block has its own counters, which are added to the common ones at the end.

If there are too many counters for that, all blocks count in the common ones.

References
----------
Victor Podlozhnyuk, "Histogram calculation in CUDA", NVIDIA, 2007: one histogram a block.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import allocate, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.functions import repeated_function

__all__ = ["between", "count_bins", "edges_array", "evenly", "itself"]

#: The largest size of a block's own counters, in bytes.
OWN_BYTES = 1 << 15
#: Numbers of counters of a block; the first sufficient one is taken, since each needs other code.
WIDTHS = (256, 2048, 8192)
#: Minimum number of elements of a block, and maximum number of blocks, on a GPU and on a host.
MIN_CHUNK, MAX_BLOCKS, HOST_BLOCKS = 1 << 14, 4096, 64
#: Threads of a block on a GPU, and elements that each loads before it counts them. On a host one
#: thread processes its part at the speed of its memory.
BLOCK, ITEMS = 512, 16


@kd.kernel(wraparound=False)
def count_apart(
    x, y, weights, x_edges, y_edges, counts, chunk,
    *, width, copies, block, items, nothing, counter, number, bin_of, span_of, is_weighted,
    are_pairs,
):  # fmt: skip
    """Count in the block's own counters and add these up; otherwise as `count_together`.

    Each counter has several copies, and neighbouring threads use copies in different banks. So
    equal elements do not conflict. `nothing` is a number without a bin, for indices after the last
    element.
    """
    own = kd.shared.array(width * copies, counter)
    loaded = kd.local.array(items, number)
    t = kd.threadIdx.x
    for k in range(t, width * copies, block):
        own[k] = 0
    kd.syncthreads()
    x_span, y_span = span_of(x_edges), span_of(y_edges)
    first = kd.blockIdx.x * chunk + t
    end = min(kd.blockIdx.x * chunk + chunk, x.size)
    for start in range(first, end, items * block):
        rest = kd.int32(min(end - start, items * block))
        if end - start > (items - 1) * block:
            for j in range(items):
                loaded[j] = number(x[start + j * block])
        else:
            for j in range(items):
                loaded[j] = number(x[start + j * block]) if j * block < rest else nothing
        for j in range(items):
            k = kd.int32(bin_of(loaded[j], x_edges, x_span))
            if are_pairs and k >= 0:
                other = bin_of(number(y[start + j * block]), y_edges, y_span)
                k = kd.int32(k * _bins(y_edges) + other if other >= 0 else -1)
            if k >= 0:
                one = counter(weights[start + j * block]) if is_weighted else counter(1)
                kd.atomic.add(own, k * copies + t % copies, one)
    kd.syncthreads()
    for k in range(t, counts.size, block):
        total = counter(0)
        for j in range(copies):
            total += own[k * copies + (j + t) % copies]
        if total != 0:
            kd.atomic.add(counts, k, total)


@kd.kernel(wraparound=False)
def count_together(
    x, y, weights, x_edges, y_edges, counts,
    *, counter, number, bin_of, span_of, is_weighted, are_pairs,
):  # fmt: skip
    """Count in ``counts[bins]``: ``x[n], y[n], weights[n]``, and the edges that `bin_of` looks at.

    `y` and its edges are read only for pairs, and weights only if there are any.
    """
    i = kd.grid(1)
    k = bin_of(number(x[i]), x_edges, span_of(x_edges))
    if are_pairs:
        j = bin_of(number(y[i]), y_edges, span_of(y_edges))
        k = k * _bins(y_edges) + j if j >= 0 and k >= 0 else -1
    if k >= 0:
        kd.atomic.add(counts, k, counter(weights[i]) if is_weighted else counter(1))


def edges_array(edges: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return edges for kernels, followed by the number of bins per unit and its uncertainty.

    A product with that number gives a position between the edges. The uncertainty is the largest
    error of the position, from the rounding of the edges and of the product. From 1 on it is
    useless.
    """
    bins, exact = edges.size - 1, edges.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scale = edges.dtype.type(bins / (exact[-1] - exact[0]))
        off = np.abs((exact - exact[0]) * np.float64(scale) - np.arange(bins + 1)).max()
        off += edges[-1] - edges[0] - (edges[-1] - edges[0])  # NaN beyond the dtype
    doubt = off + 8 * bins * np.finfo(edges.dtype).eps
    return np.append(edges, [scale, edges.dtype.type(doubt)])


def _bins(edges: Any) -> Any:
    return edges.size - 3


def _span(edges: Any) -> Any:
    """Return both ends, bins by unit, and up to how far from its middle a bin is beyond doubt."""
    bins = _bins(edges)
    return edges[0], edges[bins], edges[bins + 1], edges.dtype.type(0.5) - edges[bins + 2]


def itself(v: Any, edges: Any, span: Any) -> Any:
    """Return the bin of an integer that is the bin's number."""
    return v


def evenly(v: Any, edges: Any, span: Any) -> Any:
    """Return the bin between edges at even distances, -1 if there is none.

    A product determines the bin. Near an edge, and outside, edges are compared.
    """
    low, _, scale, sure = span
    at = (v - low) * scale
    k = np.int32(at)
    beyond = at - edges.dtype.type(k)
    is_sure = abs(beyond - edges.dtype.type(0.5)) < sure
    if is_sure and k >= 0 and k < np.int32(_bins(edges)):
        return k
    return _near_edge(v, edges, k)


def _near_edge(v: Any, edges: Any, near: Any) -> Any:
    """Return the bin of a number that is in it, in one beside it, or in none."""
    last = np.int32(_bins(edges) - 1)
    if not (v >= edges[0] and v <= edges[last + 1]):
        return np.int32(-1)
    k = min(max(near, np.int32(0)), last)
    if v < edges[k]:
        return np.int32(k - 1)
    return np.int32(k + 1) if k < last and v >= edges[k + 1] else k


def between(v: Any, edges: Any, span: Any) -> Any:
    """Return the bin between any rising edges, -1 if there is none."""
    low, high = 0, _bins(edges)
    if not (v >= span[0] and v <= span[1]):
        return -1
    while high - low > 1:
        middle = (low + high) // 2
        if v >= edges[middle]:
            low = middle
        else:
            high = middle
    return low


@repeated_function
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
    how = {
        "number": number.type, "bin_of": bin_of, "span_of": _bins if bin_of is itself else _span,
        "is_weighted": weights is not None, "are_pairs": y is not None,
    }  # fmt: skip
    arrays = (x, x if y is None else y, x if weights is None else weights)
    edges = (x_edges, x_edges if y_edges is None else y_edges)
    own = np.dtype(np.int32 if weights is None else np.float64)
    width = next((each for each in WIDTHS if bins <= each), bins)
    if width * own.itemsize > OWN_BYTES:
        counter = counts.dtype.type
        launch_over(count_together, (x.size,), *arrays, *edges, counts, counter=counter, **how)
        return counts
    blocks, block, copies = MAX_BLOCKS, BLOCK, min(32, OWN_BYTES // (width * own.itemsize))
    if is_on_host(x):
        blocks, block, copies = HOST_BLOCKS, 1, 1
    chunk = max(MIN_CHUNK, 4 * width, -(-x.size // blocks))
    launch(
        count_apart, -(-x.size // chunk), block, *arrays, *edges, counts, chunk,
        width=width, copies=copies, block=block, items=ITEMS, counter=own.type, **how,
        nothing=number.type(-1 if number.kind == "i" else np.nan),
    )  # fmt: skip
    return counts
