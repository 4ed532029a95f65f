"""The first elements of each row, which a block finds digit by digit and then gathers.

References
----------
Tolu Alabi, Jeffrey Blanchard, Bradley Gordon and Russel Steinbach, "Fast K-Selection Algorithms for
Graphics Processing Units", ACM Journal of Experimental Algorithmics 17 (2012): radix selection.
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.calls import launch
from stdlib_kernels.arrays import allocate
from stdlib_kernels.checks import Array
from stdlib_kernels.sort.words import Order

__all__ = ["select_first"]

#: Threads of a block: for rows up to a size, of which more are under way, and for longer ones.
BLOCK, SHORT_ROW, WIDE_BLOCK = 256, 1 << 14, 1024
#: Words that a thread loads before it looks at them, and bins of a digit, at most one a thread.
ITEMS, BINS = 8, 256


@kd.kernel(wraparound=False)
def select_rows(keys, found, places, flip, *, block, items, word, size, rank):
    """Gather the first words of each row: ``keys[rows, n], found[rows, k], places[rows, k]``.

    They keep the order of the row. Digits of the last one's rank are found from the highest on, by
    counting the words that have all digits before; then each warp gathers from a part of the row.
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
    # How many of the part are before the last, and how many are the last: both in a number.
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
        ties = equal + kd.popc(lasts & kd.lanemask_lt())
        if is_before or (is_last and ties < wanted):
            at = taken + kd.popc(befores & kd.lanemask_lt()) + min(ties, wanted)
            found[row, at], places[row, at] = keys[row, i], i
        taken += kd.popc(befores)
        equal += kd.popc(lasts)


def select_first(keys: Array, count: int, order: Order) -> tuple[Array, Array]:
    """Return the first words of each row, of which it has more, in the row's order, with places."""
    rows, word = keys.shape[0], keys.dtype.type
    found = allocate(keys, (rows, count), keys.dtype)
    places = allocate(keys, (rows, count), np.dtype(np.int64))
    block = BLOCK if keys.shape[1] <= SHORT_ROW else WIDE_BLOCK
    how = {"word": word, "size": keys.dtype.itemsize, "rank": order.rank, "items": ITEMS}
    launch(select_rows, rows, block, keys, found, places, order.flip, block=block, **how)
    return found, places
