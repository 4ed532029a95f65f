"""Sorts of rows, whatever sorts them: a tile, a radix sort of a GPU's, or one of a host's.

Several short rows are in a tile. Other families sort by these, too. The first elements of a row
alone are selected by a block, which finds the last of them digit by digit.

References
----------
Tolu Alabi, Jeffrey Blanchard, Bradley Gordon and Russel Steinbach, "Fast K-Selection Algorithms for
Graphics Processing Units", ACM Journal of Experimental Algorithmics 17 (2012): radix selection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch, launch_over
from stdlib_kernels.arrays import allocate, contiguous, is_on_host
from stdlib_kernels.checks import Array
from stdlib_kernels.gathering import take_each
from stdlib_kernels.parameters import real_dtype
from stdlib_kernels.sort.host import sort_on_host
from stdlib_kernels.sort.onesweep import Order, as_words, order_of, sort_long_rows

__all__ = ["ITEMS", "MAX_WIDTH", "as_rows", "select_first", "sort_rows", "sort_short_rows"]

#: Elements of a tile, as many as a row has at most; and of those each thread has 16.
MAX_WIDTH, ITEMS = 1024, 16
#: Threads of a block that selects: for rows up to a size, when more blocks run at once, and for
#: longer rows. Words that a thread loads before it reads them, and bins of a digit.
BLOCK, SHORT_ROW, WIDE_BLOCK, LOADED, BINS = 256, 1 << 14, 1024, 8, 256


@kd.kernel
def sort_tile(
    keys, out, values, out_values, flip, parts, *, count, width, rank, last, gives, is_cut
):
    """Sort rows, and store the first elements of them: ``keys[rows, n], out[rows, ≤ n]``.

    Where rows are cut, each of their `parts` is sorted: ``out[rows * parts, k]``. What is moved
    beside the keys is said by `gives`: ``"keys"`` nothing, ``"values"``, or ``"places"``.
    """
    at = into = kd.blockIdx.x * count, 0
    if is_cut:
        at = kd.blockIdx.x // parts, kd.blockIdx.x % parts * width
    words = kd.tile.load(keys, at, (count, width), other=last)
    places = words.map(rank, flip).argsort()
    kd.tile.store(out, into, words.take(places))
    if gives == "places":
        kd.tile.store(out_values, into, places + at[1] if is_cut else places)
    if gives == "values":
        kd.tile.store(out_values, into, kd.tile.load(values, at, (count, width)).take(places))


def sort_short_rows(
    keys: Array, values: Array | None, order: Order, gives: str, first: int = 0, parts: int = 1
) -> tuple[Array, Array | None]:
    """Sort the words of each row, as `sort_rows` does, or of its parts, and give the first ones.

    Without `first` all of a row are given.
    """
    rows, n = keys.shape
    shape = (rows * parts, first or n)
    out = allocate(keys, shape, keys.dtype)
    beside = out
    if gives != "keys":
        beside = allocate(keys, shape, np.dtype(np.int64) if values is None else values.dtype)
    width = min(max(32, 1 << (n - 1).bit_length()), MAX_WIDTH)
    count = MAX_WIDTH // width
    given = keys if values is None else values
    how = {"count": count, "width": width, "rank": order.rank, "last": order.last, "gives": gives}
    grid, arrays = -(-shape[0] // count), (keys, out, given, beside)
    launch(sort_tile, grid, MAX_WIDTH // ITEMS, *arrays, order.flip, parts, is_cut=parts > 1, **how)
    return out, None if gives == "keys" else beside


def as_rows(array: Array, axis: int | None) -> tuple[Array, Callable[[Array], Array]]:
    """Return contiguous rows along an axis, and what makes an array of that axis of such rows.

    `axis` is from 0 on; without one all elements are one row, and stay it.
    """
    if axis is None:
        return contiguous(array).reshape((1, array.size)), lambda rows: rows.reshape((-1,))
    order = (*(k for k in range(array.ndim) if k != axis), axis)
    back = tuple(int(k) for k in np.argsort(order))
    moved = array.transpose(order)
    count = moved.size // max(1, moved.shape[-1])

    def restored(rows: Array) -> Array:
        shape = (*moved.shape[:-1], rows.shape[-1])
        return contiguous(rows.reshape(shape).transpose(back))

    return contiguous(moved).reshape((count, moved.shape[-1])), restored


def sort_rows(
    keys: Array, values: Array | None = None, *, descending: bool = False, gives: str = "keys"
) -> tuple[Array, Any]:
    """Sort each row, equal elements in their order, NaN last or, in descending order, first.

    ``keys[rows, n]`` are contiguous, on a device. Returns new keys, and beside them what `gives`
    names: nothing (``"keys"``), the values of ``values[rows, n]``, of any dtype (``"values"``), or
    the former position of each element in its row, as int64 (``"places"``).
    """
    if not keys.size:
        beside = np.dtype(np.int64) if values is None else values.dtype
        return allocate(keys, keys.shape, keys.dtype), allocate(keys, keys.shape, beside)
    if keys.dtype.kind == "c":
        places = _places_of_complex(keys, descending=descending)
        beside = places if values is None else take_each(values, places, 1)
        return take_each(keys, places, 1), beside
    if values is not None and values.dtype.itemsize > 8:
        ordered, places = sort_rows(keys, descending=descending, gives="places")
        return ordered, take_each(values, places, 1)
    order = order_of(keys.dtype, descending=descending)
    sort = sort_long_rows if keys.shape[1] > MAX_WIDTH else sort_short_rows
    if is_on_host(keys):
        sort = sort_on_host
    words = None if values is None else as_words(values)
    ordered, found = sort(as_words(keys), words, order, gives)
    if found is not None and values is not None:
        found = found.view(values.dtype)
    return ordered.view(keys.dtype), found


@kd.kernel(wraparound=False)
def take_apart(x, real, imag, group):
    """Take complex numbers apart, and mark which of their parts are NaN: ``x[n]``, all others too.

    NumPy has numbers without NaN first, then those with NaN in the imaginary part, the real
    one, and both.
    """
    i = kd.grid(1)
    a, b = x[i].real, x[i].imag
    real[i], imag[i] = a, b
    group[i] = (2 if a != a else 0) + (1 if b != b else 0)  # noqa: PLR0124 - NaN alone differs


def _places_of_complex(keys: Array, *, descending: bool) -> Array:
    """Return where in its row each element of sorted rows was, one part after the other."""
    flat = keys.reshape((-1,))
    number = real_dtype(keys.dtype)
    real, imag = (allocate(flat, flat.shape, number) for _ in range(2))
    group = allocate(flat, flat.shape, np.dtype(np.uint8))
    launch_over(take_apart, (flat.size,), flat, real, imag, group)
    order: Array = sort_rows(imag.reshape(keys.shape), descending=descending, gives="places")[1]
    for part in (real, group):
        rows = take_each(part.reshape(keys.shape), order, 1)
        places = sort_rows(rows, descending=descending, gives="places")[1]
        order = take_each(order, places, 1)
    return order


@kd.kernel(wraparound=False)
def select_rows(keys, found, places, flip, *, block, items, word, size, rank):
    """Gather the first words of each row: ``keys[rows, n], found[rows, k], places[rows, k]``.

    They keep the order of the row. Digits of the last one's rank are found from the highest on, by
    counting the words that have all digits before. Then each warp gathers from a part of the row.
    """
    row, t, n = kd.blockIdx.x, kd.threadIdx.x, keys.shape[1]
    counts = kd.shared.array(BINS, kd.int32)
    chosen = kd.shared.array(2, kd.int32)
    ranks = kd.local.array(items, word)
    last, mask = word(0), word(0)
    wanted = kd.int32(found.shape[1])
    for k in range(size):
        shift = word(8 * (size - 1 - k))
        if t < BINS:
            counts[t] = 0
        kd.syncthreads()
        for first in range(t, n, block * items):
            for j in range(items):
                ranks[j] = rank(keys[row, min(first + j * block, n - 1)], flip)
            for j in range(items):
                if ranks[j] & mask == last and first + j * block < n:
                    kd.atomic.add(counts, kd.int32((ranks[j] >> shift) & word(BINS - 1)), 1)
        kd.syncthreads()
        own = counts[t] if t < BINS else kd.int32(0)
        through = kd.block.inclusive_scan(own)
        if through - own < wanted <= through:
            chosen[0], chosen[1] = t, through - own
        kd.syncthreads()
        last = word(last | word(chosen[0]) << shift)
        mask = word(mask | word(BINS - 1) << shift)
        wanted -= chosen[1]
    part = (n + block - 1) // block * 32
    begin = t // 32 * part
    end = min(begin + part, n)
    # Counts of the part's elements before the last, and equal to the last, packed in one number.
    both = kd.int64(0)
    for first in range(begin + kd.laneid, end, 32 * items):
        for j in range(items):
            ranks[j] = rank(keys[row, min(first + j * 32, end - 1)], flip)
        for j in range(items):
            if first + j * 32 < end:
                both += kd.int64(ranks[j] < last) + (kd.int64(ranks[j] == last) << 32)
    mine = kd.warp.inclusive_scan(both)
    before = kd.block.exclusive_scan(both) - (mine - both)
    taken, equal = kd.int32(before), kd.int32(before >> 32)
    for first in range(begin, end, 32):
        i = first + kd.laneid
        r = rank(keys[row, min(i, end - 1)], flip)
        is_before, is_last = i < end and r < last, i < end and r == last
        befores = kd.ballot_sync(0xFFFFFFFF, is_before)
        lasts = kd.ballot_sync(0xFFFFFFFF, is_last)
        ties = equal + kd.popc(kd.uint32(lasts & kd.lanemask_lt()))
        if is_before or (is_last and ties < wanted):
            at = taken + kd.popc(kd.uint32(befores & kd.lanemask_lt())) + min(ties, wanted)
            found[row, at], places[row, at] = keys[row, i], i
        taken += kd.popc(befores)
        equal += kd.popc(lasts)


def select_first(keys: Array, count: int, order: Order) -> tuple[Array, Array]:
    """Return the first words of each row, in the row's order, with their places."""
    found = allocate(keys, (keys.shape[0], count), keys.dtype)
    places = allocate(keys, found.shape, np.dtype(np.int64))
    block = BLOCK if keys.shape[1] <= SHORT_ROW else WIDE_BLOCK
    how = {"word": keys.dtype.type, "size": keys.dtype.itemsize, "rank": order.rank}
    arrays = (keys, found, places, order.flip)
    launch(select_rows, keys.shape[0], block, *arrays, block=block, items=LOADED, **how)
    return found, places
