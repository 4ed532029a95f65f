"""Attention: means of rows of values, weighted by the softmax of products of queries and keys.

A block has some queries of all heads that share one head of the keys. It goes along the keys tile
by tile. It holds the largest score so far, and two sums: of the exponentials, and of their products
with the values. A larger score scales both. If there are few queries, blocks take parts of the
keys, and their results are joined in order.

References
----------
M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax" (2018). T. Dao, "Flash-
Attention-2: Faster Attention with Better Parallelism and Work Partitioning" (2023).
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over, run_on_host
from stdlib_kernels.arrays import (
    allocate,
    constant_beside,
    contiguous,
    finish,
    is_on_host,
    on_device,
    source_and_result,
)
from stdlib_kernels.checks import Array, Out, check_array, check_same_kind, check_shape
from stdlib_kernels.copying import copy_array, copy_elements
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import finite_of, integer_of, wrong_value

__all__ = [
    "HOPPER",
    "MIN_ARCHITECTURE",
    "WIDTHS",
    "architecture_of",
    "attention",
    "check_heads",
    "counts_of",
    "positive_scale",
    "visible",
]

#: Names of dtypes of queries, keys and values.
DTYPES = ("float16", "bfloat16", "float32")
#: Most elements of a query. Those of tiles are one of these; elements beyond the arrays are 0.
WIDTHS = (16, 32, 64, 128, 256)


class Tile(NamedTuple):
    """The queries and keys of a tile, and the threads of the block that computes it."""

    queries: int
    keys: int
    threads: int


HOST_TILE = Tile(128, 128, 128)
#: Tiles for 16-bit floats on GPUs of compute capability 9.0, by the most elements of a query. A
#: thread has queries * (elements + keys) / threads sums and scores in registers: 96, 128 and 152.
HOPPER_TILES = {64: Tile(192, 128, 384), 128: Tile(128, 128, 256), 256: Tile(128, 48, 256)}
#: Tiles of one warpgroup, for at most as many queries as it has rows.
FEW_TILES = {64: Tile(64, 128, 128), 128: Tile(64, 128, 128), 256: Tile(64, 48, 128)}
#: Tile for 16-bit floats on other GPUs with tensor cores for bfloat16.
HALVES_TILE = Tile(64, 64, 128)
#: Tiles for float32, or without such tensor cores, by the most elements of a query.
WIDE_TILES = {32: Tile(32, 32, 128), 64: Tile(32, 16, 128), 256: Tile(16, 8, 64)}
#: Compute capabilities, in tenths: the lowest one with tensor cores for bfloat16, and of Hopper.
MIN_ARCHITECTURE, HOPPER = 80, 90
#: Keys of a page are a multiple of this.
PAGE = 16
#: The keys are taken in parts until there are so many blocks: one for each multiprocessor of an
#: H100. It is the same for all devices, because parts decide the order of sums, and so the bits.
BLOCKS = 132
#: Fewest keys of a part, so that joining the parts takes little time in comparison.
MIN_PART = 512
#: Most queries, and most keys of a page, for one warp on Hopper. It waits less for a page than a
#: warpgroup: an H200 reads pages of 16 keys at 3.8 TB/s instead of 1.6.
WARP_ROWS, WARP_PAGE = 16, 32
#: Number of blocks of one warp, in place of BLOCKS: about eight for each multiprocessor.
WARP_BLOCKS = 1024
#: More than any key's index.
BEYOND_ALL_KEYS = 1 << 40


class Sizes(NamedTuple):
    """Numbers that `attend` gets after its arrays, in its order."""

    queries: int
    page_keys: int
    capacity: int
    scale: Any
    window: int


def begin_of(place, shift, window):
    """Return the first key that a query sees."""
    return kd.int32(max(0, place + shift - window + 1))


def end_of(place, shift, key_count, query_count):
    """Return the end of the keys that a query sees."""
    return kd.int32(min(key_count, place + shift + 1) if place < query_count else 0)


def visible(score, key, begin, end):
    """Return a score, or -inf for a key that the query does not see."""
    return score if begin <= key < end else kd.float32(-math.inf)


def inverse(total):
    """Return 1 / total; 0 for a query that sees no key."""
    return kd.float32(0) if total == 0 else kd.float32(1) / total


@kd.kernel(wraparound=False)
def attend(
    q, k, v, key_counts, query_counts, pages, out, sums, logs,
    queries, page_keys, capacity, scale, window, part_keys,
    *, BM, BN, D, causal, masked, paged, split, save_statistics,
):  # fmt: skip
    """Compute ``out[b, h, r, d]`` from ``q[b, h, r, d]``; rows are queries of several heads.

    Keys and values are ``k[b, h, j, d]``, or those of pages. With several parts, each part has its
    ``sums[p, b, h, r, d]``, and ``logs[p, b, h, r, 1]`` to base 2 of sums of exponentials. With
    `save_statistics`, ``logs[0, b, h, r, 1]`` are natural logarithms of sums of all.
    """
    head, batch, rows = kd.blockIdx.y, kd.blockIdx.z, q.shape[2]
    tiles = (rows + BM - 1) // BM
    part = kd.blockIdx.x // tiles
    # Tiles with many visible keys come first.
    first = (tiles - 1 - kd.blockIdx.x % tiles) * BM
    key_count = min(kd.uniform(key_counts[batch]), capacity)
    query_count = kd.uniform(query_counts[batch])
    if query_count < 0:
        query_count = queries
    shift = key_count - query_count if causal else BEYOND_ALL_KEYS
    low, high = 0, queries - 1
    if first // queries == (min(first + BM, rows) - 1) // queries:  # all of one head
        low = first % queries
        high = min(low + BM, queries) - 1
    begin = max(part * part_keys, max(0, low + shift - window + 1) // BN * BN)
    end = min(key_count, (part + 1) * part_keys, high + shift + 1)
    q_tile = kd.tile.load(q[batch, head], (first, 0), (BM, D))
    places = (first + kd.tile.arange((1, BM)).T) % queries
    begins = places.map(begin_of, shift, window)
    ends = places.map(end_of, shift, key_count, query_count)
    columns = kd.tile.arange((1, BN)).astype(kd.int32)
    acc = kd.tile.zeros((BM, D), kd.float32)
    top, total = kd.tile.full((BM, 1), -1e30, kd.float32), kd.tile.zeros((BM, 1), kd.float32)
    for n in kd.pipelined(range(begin, end, BN)):
        source, row = batch, n
        if paged:
            source, row = pages[batch, n // page_keys], n % page_keys
        k_tile = kd.tile.load(k[source, head], (row, 0), (BN, D))
        v_tile = kd.tile.load(v[source, head], (row, 0), (BN, D))
        scores = kd.mma(q_tile, k_tile.T)
        is_partly = n + BN > min(key_count, low + shift + 1) or n <= high + shift - window
        if masked and (is_partly or query_count < queries):
            scores = scores.map(visible, kd.int32(n) + columns, begins, ends)
        larger = max(top, scores.max(axis=1) * scale)
        weights, fade = math.exp2(scores * scale - larger), math.exp2(top - larger)
        total = total * fade + weights.sum(axis=1)
        acc = kd.mma(weights.astype(v.dtype), v_tile, acc * fade)
        top = larger
    if not split:
        kd.tile.store(out[batch, head], (first, 0), acc * total.map(inverse))
        if save_statistics:
            log = (top + math.log2(total)) * kd.float32(math.log(2))
            kd.tile.store(logs[0, batch, head], (first, 0), log)
    else:
        kd.tile.store(sums[part, batch, head], (first, 0), acc * total.map(inverse))
        kd.tile.store(logs[part, batch, head], (first, 0), top + math.log2(total))


@kd.kernel(wraparound=False)
def join_parts(sums, logs, out, statistics, *, save_statistics):
    """Compute ``out[r, d]``, the mean of ``sums[p, r, d]`` with the weights ``2 ** logs[p, r]``.

    With `save_statistics`, ``statistics[r]`` are natural logarithms of the sums of weights.
    """
    i, j = kd.grid(2)
    largest = logs[0, i]
    for p in range(1, logs.shape[0]):
        largest = max(largest, logs[p, i])
    total, weights = kd.float32(0), kd.float32(0)
    for p in range(logs.shape[0]):
        if logs[p, i] != -math.inf:
            weight = math.exp2(logs[p, i] - largest)
            weights += weight
            total += weight * sums[p, i, j]
    out[i, j] = total * inverse(weights)
    if save_statistics and j == 0:
        statistics[i] = (largest + math.log2(weights)) * kd.float32(math.log(2))


@repeated_function
def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: int | None = None,
    lengths: Array | None = None,
    query_lengths: Array | None = None,
    pages: Array | None = None,
    out: Out = None,
    return_statistics: bool = False,
) -> Any:
    """Weight rows of values by the softmax of products of queries and keys.

    A query that sees no key, or only keys with the score -inf, gets zeros.

    Parameters
    ----------
    q : ndarray or device array of shape (batch, heads, queries, d) or (heads, queries, d)
        Queries: float16, bfloat16 or float32. `d` is at most 256.
    k : array of shape (batch, key heads, keys, d) or (key heads, keys, d)
        Keys, with the dtype and kind of `q`. Each head is shared by as many heads of queries.
    v : array of the shape of `k`
        Values, with the dtype and kind of `q`. All of them are finite: those of keys that are not
        seen are multiplied by 0.
    causal : bool
        Whether the last query sees the last key, the one before sees one key less, and so on.
    scale : float, optional
        Factor of the products, by default 1 / √d.
    window : int, optional
        With `causal`, a query sees so many keys at most: the last ones that it may see.
    lengths : array of int32 or int64 of shape (batch,), optional
        Number of keys of each batch, by default all. Numbers in the memory of a GPU, also those of
        the following arrays, are not checked.
    query_lengths : array of int32 or int64 of shape (batch,), optional
        Number of queries of each batch, by default all. Others get zeros.
    pages : array of int32 or int64 of shape (batch, n), optional
        Keys and values are in pages: the keys of a batch are those of ``k[pages[batch, 0]]``, then
        of ``k[pages[batch, 1]]``, and so on. `k` and `v` have the shape (pages, key heads, keys of
        a page, d). A page has a multiple of 16 keys. Pages from `lengths` on may be any numbers.
    out : array of the shape of `q`, optional
        Array for the result, with the dtype and kind of `q`.
    return_statistics : bool
        Whether the statistics of the rows are returned, too, for `attention_backward`.

    Returns
    -------
    array of the shape of `q`
        Same dtype and kind as `q`; `out` if it is given. Products are added as float32, and the
        weights are rounded to the dtype.
    array of float32 of the shape of `q` without its last axis
        If `return_statistics`: the natural logarithm of the sum of the exponentials of the scores
        of each query, -inf without one.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If an array has another dtype or shape, or a number is out of its range.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels import attention
    >>> q, k = np.zeros((1, 2, 8), np.float32), np.zeros((1, 2, 8), np.float32)
    >>> v = np.array([[[1] * 8, [3] * 8]], np.float32)
    >>> attention(q, k, v)[0, :, 0].tolist(), attention(q, k, v, causal=True)[0, :, 0].tolist()
    ([2.0, 2.0], [1.0, 2.0])
    """
    check_heads(q, k, v, pages, window, causal=causal)
    heads, queries, width = tuple(q.shape[-3:])
    scale = 1 / math.sqrt(width) if scale is None else scale
    factor = finite_of("scale", scale, np.dtype(np.float32))
    source, result = source_and_result(q, out, tuple(q.shape), q.dtype, k, v)
    keys, values = on_device(k), on_device(v)
    count = 1 if q.ndim == 3 else q.shape[0]
    if pages is None and q.ndim == 3:
        keys, values = keys[None], values[None]
    groups, page_keys = keys.shape[1:3]
    capacity = page_keys
    if pages is None:
        table = allocate(source, (1, 1), np.dtype(np.int64))
    else:
        table = on_device(_integers("pages", pages, q, (count, pages.shape[-1])))
        capacity = table.shape[1] * page_keys
    counts = counts_of(source, q, (lengths, query_lengths), count, capacity)
    of_batches = [] if lengths is None else [page_keys, lengths]
    _check_numbers("pages", k.shape[0] - 1, pages, *of_batches)
    statistics = None
    if return_statistics:
        statistics = allocate(source, tuple(q.shape[:-1]), np.dtype(np.float32))
    if math.prod(q.shape):
        packed, factor = positive_scale(contiguous(source), factor)
        shape = (count, groups, heads // groups * queries, width)
        far = 2 * BEYOND_ALL_KEYS if window is None else integer_of("window", window, 1)
        arrays = (packed.reshape(shape), keys, values, *counts, table)
        sizes = Sizes(queries, page_keys, capacity, factor * np.float32(math.log2(math.e)), far)
        ends = causal or lengths is not None or query_lengths is not None
        static = {"causal": bool(causal), "masked": bool(ends), "paged": pages is not None}
        _launch(arrays, result.reshape(shape), statistics, sizes, static)
    found = finish(result, like=q, out=out)
    return found if statistics is None else (found, finish(statistics, like=q))


def check_heads(q: Any, k: Any, v: Any, pages: Any, window: Any, *, causal: bool) -> None:
    """Refuse arrays and options that do not fit."""
    check_array("q", q, dtypes=DTYPES)
    if q.ndim not in (3, 4):
        limit = "It must have the shape (heads, queries, d), or the same for each batch"
        raise wrong_value("the shape of q", tuple(q.shape), limit, "Reshape it")
    for name, each in (("k", k), ("v", v)):
        check_array(name, each, dtypes=(q.dtype.name,), ndim=4 if pages is not None else q.ndim)
        check_same_kind(name, each, "q", q)
    check_shape("v", v, tuple(k.shape), f"It must be that of k, {tuple(k.shape)}", "Reshape it")
    fits = q.shape[-1] == k.shape[-1] and q.shape[-3] % max(k.shape[-3], 1) == 0
    fits = fits and (pages is not None or q.shape[:-3] == k.shape[:-3])
    if not fits or (q.shape[-3] and not k.shape[-3]):
        limit = f"q has the shape {tuple(q.shape)}. Batches and d are equal, and heads of q are a "
        limit += "multiple of those of k"
        raise wrong_value("the shape of k", tuple(k.shape), limit, "Reshape it, or take its axes")
    if not 1 <= q.shape[-1] <= WIDTHS[-1]:
        limit = f"The last axis has 1 to {WIDTHS[-1]} elements"
        raise wrong_value("the shape of q", tuple(q.shape), limit, "Split the heads")
    if pages is not None and (k.shape[2] % PAGE or not k.shape[2]):
        limit = f"A page has a multiple of {PAGE} keys"
        raise wrong_value("the shape of k", tuple(k.shape), limit, "Take larger pages")
    if window is not None and not causal:
        raise wrong_value("window", window, "It is an option of causal=True", "Say causal=True")


def positive_scale(q: Any, scale: np.float32) -> tuple[Any, np.float32]:
    """Return queries and a positive factor that give the same scores.

    Kernels multiply scores by the factor after hidden ones became -inf, which stay so.
    """
    if scale > 0:
        return q, scale
    signed: Any = allocate(q, tuple(q.shape), q.dtype)
    change = (lambda v: -v) if scale < 0 else (lambda v: v * 0)
    copy_elements(q.reshape(-1), signed.reshape(-1), change)
    return signed, abs(scale) or np.float32(1)


def _integers(name: str, value: Array, q: Array, shape: tuple[int, ...]) -> Array:
    """Return an array of int32 or int64 of a shape."""
    check_array(name, value, dtypes=("int32", "int64"))
    check_same_kind(name, value, "q", q)
    check_shape(name, value, shape, f"It must be {shape}, for the batches of q", "Reshape it")
    return value


def _check_numbers(name: str, most: int, numbers: Array | None, *limits: Any) -> None:
    """Refuse numbers on a host that are not from 0 to `most`; a GPU is not waited for.

    Those of pages have `limits`: the keys of a page, and of each batch. Others may be any numbers.
    """
    if numbers is not None and all(map(is_on_host, (numbers, *limits[1:]))):
        run_on_host(functools.partial(_refuse_beyond, name, most), numbers, *limits)


def _refuse_beyond(
    name: str, most: int, numbers: Array, page: int = 1, lengths: Array | None = None
) -> None:
    found = np.asarray(numbers)
    if lengths is not None:
        found = found[np.arange(found.shape[1]) * page < np.asarray(lengths)[:, None]]
    wrong = found[(found < 0) | (found > most)]
    if wrong.size:
        raise wrong_value(f"an element of {name}", int(wrong[0]), f"It must be from 0 to {most}")


def counts_of(
    source: Array, q: Array, given: tuple[Array | None, Array | None], count: int, capacity: int
) -> list[Array]:
    """Return the numbers of keys and of queries of each batch, beside `source`."""
    names = ("lengths", "query_lengths")
    # Two different constants: code for arguments that are one array is slower.
    found = [
        constant_beside(source, np.full(count, number))
        if each is None
        else on_device(_integers(name, each, q, (count,)))
        for name, each, number in zip(names, given, (capacity, -1), strict=True)
    ]
    for name, each, limit in zip(names, given, (capacity, q.shape[-2]), strict=True):
        _check_numbers(name, limit, each)
    if given[0] is given[1] is not None:
        found[1] = allocate(source, (count,), found[0].dtype)
        copy_array(found[0], found[1])
    return found


def _launch(
    inputs: tuple[Array, ...],
    out: Array,
    statistics: Array | None,
    sizes: Sizes,
    static: dict[str, Any],
) -> None:
    """Launch the kernel with the tiles for a device, in as many parts as keep it at work."""
    count, groups, rows, width = out.shape
    capacity, most_blocks = sizes.capacity, BLOCKS
    wide = next(each for each in WIDTHS if width <= each)
    height, length, threads = _tile(out, wide, rows)
    if static["paged"]:
        length = math.gcd(length, sizes.page_keys)
    is_few = height == FEW_TILES[64].queries and architecture_of(out) == HOPPER
    if is_few and rows <= WARP_ROWS and wide < WIDTHS[-1] and length <= WARP_PAGE:
        height, threads, most_blocks = WARP_ROWS, 32, WARP_BLOCKS
    blocks = -(-rows // height) * groups * count
    parts = max(1, min(most_blocks // blocks, capacity // MIN_PART))
    part_keys = -(-capacity // (parts * length)) * length
    parts = max(1, -(-capacity // max(part_keys, 1)))
    # With a single part, nothing is written to sums; no arguments overlap.
    shapes = ((parts, *out.shape), (parts, *out.shape[:3], 1)) if parts > 1 else [(1,) * 5] * 2
    sums, logs = (allocate(out, shape, np.dtype(np.float32)) for shape in shapes)
    saves = statistics is not None
    if statistics is not None and parts == 1:
        logs = statistics.reshape((1, *out.shape[:3], 1))
    grid = (parts * -(-rows // height), groups, count)
    static |= {"BM": height, "BN": length, "D": wide, "split": parts > 1, "save_statistics": saves}
    static["masked"] |= capacity % length > 0
    launch(attend, grid, threads, *inputs, out, sums, logs, *sizes, part_keys, **static)
    if parts > 1:
        flat = (sums.reshape((parts, -1, width)), logs.reshape((parts, -1)))
        joined = allocate(out, (1,), np.dtype(np.float32)) if statistics is None else statistics
        given = (*flat, out.reshape((-1, width)), joined.reshape(-1))
        launch_over(join_parts, (count * groups * rows, width), *given, save_statistics=saves)


def _tile(out: Array, width: int, rows: int) -> Tile:
    """Return the tile for a device, and for so many elements and rows of queries."""
    if is_on_host(out):
        return HOST_TILE
    arch = architecture_of(out)
    if out.dtype.itemsize > 2 or arch < MIN_ARCHITECTURE:
        return next(tile for most, tile in WIDE_TILES.items() if width <= most)
    if arch != HOPPER:
        return HALVES_TILE
    tiles = HOPPER_TILES if rows > FEW_TILES[64].queries else FEW_TILES
    return next(tile for most, tile in tiles.items() if width <= most)


def architecture_of(array: Array) -> int:
    """Return the compute capability of an array's device in tenths, 0 if it has none."""
    if isinstance(array, np.ndarray):
        return 0
    return int("".join(filter(str.isdigit, getattr(array.device, "arch", None) or "0")))
