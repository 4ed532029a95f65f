"""Gradients of attention with respect to queries, keys and values.

The weights of the forward pass are computed again from the scores and the statistics of their rows:
the logarithms of sums of exponentials. A block has a tile of keys and goes along the queries for
the gradients of keys and values. Another kernel has a tile of queries and goes along the keys. So
each gradient is added in one order, without atomic operations.

References
----------
T. Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023),
algorithm 2.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import allocate, contiguous, finish, is_on_host, on_device
from stdlib_kernels.checks import Array, check_array, check_same_kind, check_shape
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.linalg.attention import (
    DTYPES,
    HOPPER,
    MIN_ARCHITECTURE,
    WIDTHS,
    architecture_of,
    check_heads,
    counts_of,
    positive_scale,
    visible,
)
from stdlib_kernels.parameters import finite_of, integer_of

__all__ = ["attention_backward"]

#: Keys or queries of a block, those of an iteration, and threads, on a CPU.
HOST_TILE = (128, 128, 128)
#: Tiles for keys and for queries, by width, for 16-bit floats on GPUs of compute capability 9.0.
HOPPER_TILES = {
    64: ((128, 96, 256), (128, 128, 256)),
    128: ((128, 64, 256), (128, 96, 256)),
    256: ((32, 32, 128), (64, 32, 128)),
}
#: Tiles on other GPUs; then for float32, or without tensor cores, by width.
HALVES_TILES = {128: (64, 64, 128), 256: (32, 32, 128)}
WIDE_TILES = {32: (32, 32, 128), 64: (16, 16, 128), 256: (8, 8, 64)}
#: Rows of a tile of terms, and its threads.
TERM_ROWS, TERM_THREADS = 16, 128
#: Multiple to which the rows of terms are padded.
LINE = 4
#: More than any difference of places of a query and a key, within 32 bits.
APART = 1 << 30


def high_of(statistic, place, asked):
    """Return the logarithm to base 2 of a sum of weights; infinity if all weights are 0."""
    is_none = place >= asked or statistic == -math.inf
    return kd.float32(math.inf) if is_none else statistic * kd.float32(math.log2(math.e))


def first_of(place, shift, keys):
    """Return the first query that sees a key, or would if it were one."""
    return kd.int32(place - shift if place < keys else APART)


def seen(s, i, first, window):
    """Return a score, or -inf for a query that does not see the key."""
    # A query before the first one is a large number without a sign.
    return s if kd.uint32(i - first) < window else kd.float32(-math.inf)


def first_key(place, shift, window):
    """Return the first key that a query sees."""
    return kd.int32(max(0, place + shift - window + 1))


def end_key(place, shift, keys):
    """Return the end of the keys that a query sees."""
    return kd.int32(min(keys, place + shift + 1))


@kd.kernel(wraparound=False)
def find_terms(out, grad, statistics, asked, highs, means, *, BM, D):
    """Compute for each row the logarithm of its sum, and the sum of ``out * grad``."""
    first, head, batch = kd.blockIdx.x * BM, kd.blockIdx.y, kd.blockIdx.z
    wanted = kd.uniform(asked[batch])
    if wanted < 0:
        wanted = out.shape[2]
    x = kd.tile.load(out[batch, head], (first, 0), (BM, D)).astype(kd.float32)
    y = kd.tile.load(grad[batch, head], (first, 0), (BM, D)).astype(kd.float32)
    found = kd.tile.load(statistics[batch, head], (first, 0), (BM, 1))
    places = first + kd.tile.arange((1, BM)).T
    kd.tile.store(highs[batch, head], (first, 0), found.map(high_of, places, wanted))
    kd.tile.store(means[batch, head], (first, 0), (x * y).sum(axis=1))


@kd.kernel(wraparound=False)
def back_to_keys(
    q, k, v, grad, highs, means, lengths, asked, dk, dv, group, scale, factor, window,
    *, BM, BN, D, causal, masked,
):  # fmt: skip
    """Compute the gradients of a tile of keys and values: ``dk`` and ``dv[b, h, j, d]``."""
    head, batch, queries, capacity = kd.blockIdx.y, kd.blockIdx.z, q.shape[2], k.shape[2]
    first = kd.blockIdx.x * BM
    keys = min(kd.uniform(lengths[batch]), capacity)
    wanted = kd.uniform(asked[batch])
    if wanted < 0:
        wanted = queries
    shift = keys - wanted if causal else APART
    begin = max(0, first - shift) // BN * BN
    end = min(wanted, first + BM - 1 - shift + window) if first < keys else 0
    y = kd.tile.load(k[batch, head], (first, 0), (BM, D))
    z = kd.tile.load(v[batch, head], (first, 0), (BM, D))
    places = first + kd.tile.arange((1, BM)).T
    firsts, most = places.map(first_of, shift, keys), kd.uint32(window)
    columns = kd.tile.arange((1, BN)).astype(kd.int32)
    of_keys, of_values = kd.tile.zeros((BM, D), kd.float32), kd.tile.zeros((BM, D), kd.float32)
    for each in range(group):
        for i in kd.pipelined(range(begin, end, BN)):
            own = head * group + each
            x = kd.tile.load(q[batch, own], (i, 0), (BN, D))
            g = kd.tile.load(grad[batch, own], (i, 0), (BN, D))
            high = kd.tile.load(highs[batch, own], (0, i), (1, BN))
            mean = kd.tile.load(means[batch, own], (0, i), (1, BN))
            s = kd.mma(y, x.T)
            slope = kd.mma(z, g.T)
            is_partly = (
                first + BM > min(keys, i + shift + 1) or first <= i + BN - 1 + shift - window
            )
            if masked and is_partly:
                s = s.map(seen, kd.int32(i) + columns, firsts, most)
            p = math.exp2(s * factor - high)
            of_values = kd.mma(p.astype(v.dtype), g, of_values)
            p = p * (slope - mean)
            of_keys = kd.mma(p.astype(v.dtype), x, of_keys)
    kd.tile.store(dv[batch, head], (first, 0), of_values)
    kd.tile.store(dk[batch, head], (first, 0), of_keys * scale)


@kd.kernel(wraparound=False)
def back_to_queries(
    q, k, v, grad, highs, means, lengths, asked, dq, group, scale, factor, window,
    *, BM, BN, D, causal, masked,
):  # fmt: skip
    """Compute the gradients of a tile of queries: ``dq[b, h, i, d]``."""
    head, batch, queries, capacity = kd.blockIdx.y, kd.blockIdx.z, q.shape[2], k.shape[2]
    # Tiles with many visible keys come first.
    first, shared = (kd.gridDim.x - 1 - kd.blockIdx.x) * BM, head // group
    keys = min(kd.uniform(lengths[batch]), capacity)
    wanted = kd.uniform(asked[batch])
    if wanted < 0:
        wanted = queries
    shift = keys - wanted if causal else APART
    begin = max(0, first + shift - window + 1) // BN * BN
    end = min(keys, first + BM + shift) if first < wanted else 0
    x = kd.tile.load(q[batch, head], (first, 0), (BM, D))
    g = kd.tile.load(grad[batch, head], (first, 0), (BM, D))
    high = kd.tile.load(highs[batch, head], (first, 0), (BM, 1))
    mean = kd.tile.load(means[batch, head], (first, 0), (BM, 1))
    places = first + kd.tile.arange((1, BM)).T
    begins, ends = places.map(first_key, shift, window), places.map(end_key, shift, keys)
    columns = kd.tile.arange((1, BN)).astype(kd.int32)
    of_queries = kd.tile.zeros((BM, D), kd.float32)
    for j in kd.pipelined(range(begin, end, BN)):
        y = kd.tile.load(k[batch, shared], (j, 0), (BN, D))
        z = kd.tile.load(v[batch, shared], (j, 0), (BN, D))
        s = kd.mma(x, y.T)
        slope = kd.mma(g, z.T)
        is_partly = j + BN > min(keys, first + shift + 1) or j <= first + BM - 1 + shift - window
        if masked and is_partly:
            s = s.map(visible, kd.int32(j) + columns, begins, ends)
        p = math.exp2(s * factor - high) * (slope - mean)
        of_queries = kd.mma(p.astype(k.dtype), y, of_queries)
    kd.tile.store(dq[batch, head], (first, 0), of_queries * scale)


@repeated_function
def attention_backward(
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    statistics: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: Array | None = None,
    query_lengths: Array | None = None,
) -> Any:
    """Return the gradients of `attention` with respect to queries, keys and values.

    Parameters
    ----------
    grad : array of the shape of `q`
        The gradient with respect to the result, with the dtype and kind of `q`. All elements are
        finite, also those of queries that `query_lengths` leaves out.
    q, k, v : array
        The arrays of the call, which had no pages.
    out, statistics : array
        What the call with ``return_statistics=True`` returned.
    causal : bool
        As in the call.
    scale : float, optional
        As in the call.
    window : int, optional
        As in the call.
    lengths, query_lengths : array of int32 or int64 of shape (batch,), optional
        As in the call.

    Returns
    -------
    tuple of arrays
        The gradients with respect to `q`, `k` and `v`, with their shapes and dtypes, of the kind of
        `q`. Products are added as float32 in one order. Their factors are rounded to the dtype.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If an array has another dtype or shape, or a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import attention, attention_backward
    >>> q = k = np.zeros((1, 2, 8), np.float32)
    >>> v = np.array([[[1] * 8, [3] * 8]], np.float32)
    >>> out, statistics = attention(q, k, v, causal=True, return_statistics=True)
    >>> dq, dk, dv = attention_backward(np.ones_like(q), q, k, v, out, statistics, causal=True)
    >>> dv[0, :, 0].tolist()
    [1.5, 0.5]
    """
    check_array("grad", grad, dtypes=DTYPES)
    check_heads(q, k, v, None, window, causal=causal)
    shape = tuple(q.shape)
    for name, each, dtype, wanted in (
        ("grad", grad, q.dtype.name, shape),
        ("out", out, q.dtype.name, shape),
        ("statistics", statistics, "float32", shape[:-1]),
    ):
        check_array(name, each, dtypes=(dtype,))
        check_same_kind(name, each, "q", q)
        check_shape(name, each, wanted, f"It must be {wanted}, for the shape of q", "Reshape it")
    given = [contiguous(on_device(each)) for each in (q, k, v, grad, out)]
    results = [allocate(each, tuple(each.shape), q.dtype) for each in given[:3]]
    if not math.prod(shape) or not math.prod(k.shape):
        zeros = [allocate(each, tuple(each.shape), q.dtype, zero=True) for each in given[:3]]
        return tuple(finish(each, like=q) for each in zeros)
    source = given[0]
    queries, keys, values, grads, result = (x[None] if q.ndim == 3 else x for x in given)
    count, heads, rows, width = queries.shape
    stored = contiguous(on_device(statistics)).reshape((count, heads, rows, 1))
    counts = counts_of(source, q, (lengths, query_lengths), count, keys.shape[2])
    scale = 1 / math.sqrt(width) if scale is None else scale
    unit = finite_of("scale", scale, np.dtype(np.float32))
    queries, factor = positive_scale(queries, unit)
    to_base_2 = factor * np.float32(math.log2(math.e))
    reach = 2 * APART if window is None else min(integer_of("window", window, 1), 2 * APART)
    ends = causal or lengths is not None or query_lengths is not None
    wide = next(each for each in WIDTHS if width <= each)
    padded = -(-rows // LINE) * LINE
    highs, means = (
        allocate(source, (count, heads, padded, 1), np.dtype(np.float32)) for _ in range(2)
    )
    launch(
        find_terms, (-(-padded // TERM_ROWS), heads, count), TERM_THREADS,
        result, grads, stored, counts[1], highs, means, BM=TERM_ROWS, D=wide,
    )  # fmt: skip
    group = heads // keys.shape[1]
    of_keys, of_queries = _tiles(source, wide)
    targets = [x[None] if q.ndim == 3 else x for x in results]
    lines = [each.reshape((count, heads, 1, padded)) for each in (highs, means)]
    # Gradients of keys have the factor of the signed queries, those of queries the scale itself.
    for kernel, extent, tile, terms, made, by in (
        (back_to_keys, keys.shape[2], of_keys, lines, targets[1:], factor),
        (back_to_queries, rows, of_queries, (highs, means), targets[:1], unit),
    ):
        height, length, threads = tile
        is_partial = keys.shape[2] % (height if kernel is back_to_keys else length) > 0
        static = {"BM": height, "BN": length, "D": wide, "causal": bool(causal)}
        static["masked"] = bool(ends) or is_partial
        arrays = (queries, keys, values, grads, *terms, *counts, *made)
        grid = (-(-extent // height), made[0].shape[1], count)
        launch(kernel, grid, threads, *arrays, group, by, to_base_2, reach, **static)
    return tuple(finish(each, like=q) for each in results)


def _tiles(source: Array, width: int) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the tiles and threads of the kernels for keys and for queries."""
    if is_on_host(source):
        return HOST_TILE, HOST_TILE
    arch = architecture_of(source)
    if source.dtype.itemsize > 2 or arch < MIN_ARCHITECTURE:
        found = next(tile for most, tile in WIDE_TILES.items() if width <= most)
        return found, found
    if arch == HOPPER:
        return next(tiles for most, tiles in HOPPER_TILES.items() if width <= most)
    found = next(tile for most, tile in HALVES_TILES.items() if width <= most)
    return found, found
