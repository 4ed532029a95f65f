"""The cumulative sum, by reduce-then-scan in two passes over the data.

The array is cut into one chunk a block, of whole tiles. The first pass adds up each chunk, one
block then scans the chunks' sums, and the second pass scans each chunk tile by tile, starting with
the sum of the chunks before it. No block ever waits for another, so the method suits targets that
run blocks one after the other. Inside a tile each thread adds a few neighbours by itself, and the
threads' sums are scanned in shared memory.

References
----------
Guy E. Blelloch, "Prefix Sums and Their Applications", Carnegie Mellon University, CMU-CS-90-190,
1990: the exclusive scan of block sums.
Duane Merrill and Andrew Grimshaw, "Parallel Scan for Stream Architectures", University of Virginia,
CS2009-14, 2009: reduce-then-scan with a fixed number of blocks.
W. Daniel Hillis and Guy L. Steele, "Data Parallel Algorithms", Communications of the ACM 29(12),
1986: the scan inside a block.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.arrays import (
    Array,
    accumulator_dtype,
    allocate,
    check_array,
    check_out,
    contiguous_1d,
    destination,
    finish,
    on_device,
)
from stdlib_kernels.functions import library_function
from stdlib_kernels.reduce.chunks import BLOCK, chunk_sums, neutral_element

__all__ = ["cumsum"]

#: Neighbouring elements that a thread scans by itself.
ITEMS = 4
#: Elements that a block scans at once.
TILE = BLOCK * ITEMS
#: Largest number of chunks; one block scans their sums, as one tile.
MAX_CHUNKS = TILE


@cache
def scan_chunks(dtype: np.dtype[Any]) -> Any:
    """Make the kernel that scans each chunk: ``(x[n], sums[chunks], out[n], chunk)``.

    Block b starts with ``sums[b - 1]``, the inclusive scan of the chunks before it.
    """
    number = dtype.type
    neutral = neutral_element(dtype, keeps_sign=True)

    @kd.kernel(wraparound=False)
    def scan_chunks(x, sums, out, chunk):
        tile = kd.shared.array(TILE, number)
        totals = kd.shared.array(BLOCK, number)
        t = kd.threadIdx.x
        first = kd.blockIdx.x * chunk
        last = min(first + chunk, x.size)
        carry = neutral
        if kd.blockIdx.x > 0:
            carry = sums[kd.blockIdx.x - 1]
        for start in range(first, last, TILE):
            # Neighbouring threads read neighbouring elements; each then owns ITEMS in a row.
            for k in range(ITEMS):
                i = start + k * BLOCK + t
                value = neutral
                if i < last:
                    value = number(x[i])
                tile[k * BLOCK + t] = value
            kd.syncthreads()
            total = neutral
            for k in range(ITEMS):
                total += tile[t * ITEMS + k]
            totals[t] = total
            kd.syncthreads()
            distance = 1
            while distance < BLOCK:
                before = neutral
                if t >= distance:
                    before = totals[t - distance]
                kd.syncthreads()
                if t >= distance:
                    totals[t] = before + totals[t]
                kd.syncthreads()
                distance *= 2
            running = carry
            if t > 0:
                running += totals[t - 1]
            for k in range(ITEMS):
                running += tile[t * ITEMS + k]
                tile[t * ITEMS + k] = running
            carry += totals[BLOCK - 1]
            kd.syncthreads()
            for k in range(ITEMS):
                i = start + k * BLOCK + t
                if i < last:
                    out[i] = tile[k * BLOCK + t]
            kd.syncthreads()

    return scan_chunks


@library_function
def cumsum(x: Array, *, out: Array | None = None) -> Any:
    """Add up the elements before and at each place.

    Parameters
    ----------
    x : ndarray or device array
        Of any rank and layout, flattened in C order; bool, integer or float.
    out : array of shape (x.size,), optional
        Where the result goes, of the result's dtype and of `x`'s kind.

    Returns
    -------
    array of shape (x.size,)
        Of `x`'s kind; `out`, where it is given. Booleans and signed integers add up as int64,
        unsigned integers as uint64, and wrap around as in NumPy; floating numbers add up in their
        own dtype, in another order than NumPy's.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        Where `x` is no array, or is of a dtype without a cumulative sum, or `out` does not fit.

    See Also
    --------
    numpy.cumsum

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import cumsum
    >>> cumsum(np.array([3, 1, 4, 1, 5], np.uint8)).tolist()
    [3, 4, 8, 9, 14]
    """
    check_array("x", x, kinds="biuf")
    dtype = accumulator_dtype(x.dtype)
    check_out(out, like=x, shape=(x.size,), dtype=dtype)
    source = on_device(contiguous_1d(x))
    result = destination(source, (source.size,), dtype, out)
    if source.size > 0:
        scan = scan_chunks(dtype)
        tiles = -(-source.size // TILE)
        tiles_per_chunk = -(-tiles // MAX_CHUNKS)
        chunk = tiles_per_chunk * TILE
        chunks = -(-tiles // tiles_per_chunk)
        sums = allocate(source, (chunks,), dtype)
        if chunks > 1:
            chunk_sums(dtype, keeps_sign=True)[chunks, BLOCK](source, sums, chunk)
            scanned = allocate(source, (chunks,), dtype)
            scan[1, BLOCK](sums, sums, scanned, MAX_CHUNKS)
            sums = scanned
        scan[chunks, BLOCK](source, sums, result, chunk)
    return finish(result, like=x, out=out)
