"""Sorts on a host: elements move by an upper digit first, so that what is left fits a cache.

One long row is divided into segments by eight bits of its elements, the highest in which they
differ. A core sorts each segment, or each of many rows, from the lowest digit to the highest.

References
----------
Donald E. Knuth, "The Art of Computer Programming", volume 3, section 5.2.5: "Sorting by
Distribution".
"""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import is_captured, launch, refuse_to_repeat
from stdlib_kernels.arrays import allocate, constant_beside
from stdlib_kernels.checks import Array
from stdlib_kernels.sort.onesweep import Order

__all__ = ["sort_on_host"]

#: Values of a digit.
RADIX = 256
#: Elements from which on a row is cut into segments, and of a part of it at least.
LONG_ROW, MIN_CHUNK = 1 << 15, 1 << 14
#: Parts of a row at most.
MAX_PARTS = 64
#: Elements of a segment that are inserted one by one.
SHORT = 40


@kd.kernel(wraparound=False)
def find_extremes(keys, found, chunk, flip, *, rank):
    """Find the least and the greatest rank of each part: ``keys[n], found[parts, 2]``."""
    first = kd.blockIdx.x * chunk
    low = rank(keys[first], flip)
    high = low
    for i in range(first + 1, min(first + chunk, keys.size)):
        r = rank(keys[i], flip)
        low, high = min(low, r), max(high, r)
    found[kd.blockIdx.x, 0], found[kd.blockIdx.x, 1] = low, high


def _digit(r: Any, shift: Any) -> Any:
    return np.int64(np.uint64(r) >> np.uint64(shift) & np.uint64(RADIX - 1))


@kd.kernel(wraparound=False)
def count_digits(keys, counts, chunk, shift, flip, *, rank):
    """Count the digits of each part: ``keys[n], counts[parts, 256]``."""
    own = kd.local.array(RADIX, kd.int64)
    for d in range(RADIX):
        own[d] = 0
    first = kd.blockIdx.x * chunk
    for i in range(first, min(first + chunk, keys.size)):
        own[_digit(rank(keys[i], flip), shift)] += 1
    for d in range(RADIX):
        counts[kd.blockIdx.x, d] = own[d]


@kd.kernel(wraparound=False)
def cut(keys, out, values, out_values, counts, bounds, chunk, shift, flip, *, rank, gives):
    """Move each part's elements after those of smaller digits, which begin at ``bounds[257]``.

    ``keys[n], out[n], values[n], out_values[n], counts[parts, 256]``. What is moved beside the keys
    is said by `gives`: ``"keys"`` nothing, ``"values"``, or ``"places"``.
    """
    places = kd.local.array(RADIX, kd.int64)
    total = 0
    for d in range(RADIX):
        if kd.blockIdx.x == 0:
            bounds[d] = total
        for part in range(counts.shape[0]):
            if part == kd.blockIdx.x:
                places[d] = total
            total += counts[part, d]
    if kd.blockIdx.x == 0:
        bounds[RADIX] = total
    first = kd.blockIdx.x * chunk
    for i in range(first, min(first + chunk, keys.size)):
        w = keys[i]
        d = _digit(rank(w, flip), shift)
        place = places[d]
        places[d] = place + 1
        out[place] = w
        if gives != "keys":
            out_values[place] = i if gives == "places" else values[i]


@kd.kernel(wraparound=False)
def sort_segments(
    keys, one, two, values, one_values, two_values, bounds, digits, flip, *, rank, gives, is_cut
):
    """Sort each segment by its lowest digits: ``bounds[segments + 1]``, all others of one length.

    What is cut already is in `one`; else it is copied there. An even number of digits leaves the
    result in `one`, an odd one in `two`.
    """
    first, end = bounds[kd.blockIdx.x], bounds[kd.blockIdx.x + 1]
    if not is_cut:
        for i in range(first, end):
            one[i] = keys[i]
            if gives != "keys":
                one_values[i] = i - first if gives == "places" else values[i]
    if end - first <= SHORT:
        for i in range(first + 1, end):
            w, v, k = one[i], one_values[i], i
            while k > first and rank(w, flip) < rank(one[k - 1], flip):
                one[k] = one[k - 1]
                if gives != "keys":
                    one_values[k] = one_values[k - 1]
                k -= 1
            one[k] = w
            if gives != "keys":
                one_values[k] = v
        if digits % 2 == 1:
            for i in range(first, end):
                two[i] = one[i]
                if gives != "keys":
                    two_values[i] = one_values[i]
        return
    counts = kd.local.array((8, RADIX), kd.int64)
    for k in range(digits):
        for d in range(RADIX):
            counts[k, d] = 0
    for i in range(first, end):
        r = rank(one[i], flip)
        for k in range(digits):
            counts[k, _digit(r, 8 * k)] += 1
    source, out, source_values, out_values = one, two, one_values, two_values
    for k in range(digits):
        total = first
        for d in range(RADIX):
            count = counts[k, d]
            counts[k, d] = total
            total += count
        for i in range(first, end):
            w = source[i]
            d = _digit(rank(w, flip), 8 * k)
            place = counts[k, d]
            counts[k, d] = place + 1
            out[place] = w
            if gives != "keys":
                out_values[place] = source_values[i]
        source, out = out, source
        source_values, out_values = out_values, source_values


def sort_on_host(
    keys: Array, values: Array | None, order: Order, gives: str
) -> tuple[Array, Array | None]:
    """Sort the words of each row, as `sort_rows` does: ``keys[rows, n]``."""
    rows, n = keys.shape
    flat = keys.reshape(-1)
    dtype = np.dtype(np.int64) if values is None else values.dtype
    given = flat if values is None else values.reshape(-1)
    bounds: Array
    pairs = [allocate(keys, (rows * n,), keys.dtype) for _ in range(2)]
    beside = pairs if gives == "keys" else [allocate(keys, (rows * n,), dtype) for _ in range(2)]
    is_cut = rows == 1 and n >= LONG_ROW
    how: dict[str, Any] = {"rank": order.rank, "gives": gives}
    if n <= SHORT:
        bounds = constant_beside(flat, np.arange(0, rows * n + 1, n))
        arrays = (flat, *pairs, given, *beside, bounds)
        launch(sort_segments, rows, 1, *arrays, 0, order.flip, is_cut=False, **how)
        return pairs[0].reshape(rows, n), None if gives == "keys" else beside[0].reshape(rows, n)
    refuse_to_repeat()  # the digits that are left to sort by follow from the elements
    chunk = max(MIN_CHUNK, -(-flat.size // MAX_PARTS))
    parts = -(-flat.size // chunk)
    bits = 8 * keys.dtype.itemsize
    if isinstance(keys, np.ndarray) or not is_captured(keys.device):
        found = np.empty((parts, 2), keys.dtype)
        find_extremes[parts, 1](flat, found, chunk, order.flip, rank=order.rank)
        bits = (int(found[:, 0].min()) ^ int(found[:, 1].max())).bit_length()
    if is_cut:
        shift = max(0, bits - 8)
        counts, bounds = np.empty((parts, RADIX), np.int64), np.empty(RADIX + 1, np.int64)
        count_digits[parts, 1](flat, counts, chunk, shift, order.flip, rank=order.rank)
        cut[parts, 1](
            flat, pairs[0], given, beside[0], counts, bounds, chunk, shift, order.flip, **how
        )
        bits = shift
    else:
        bounds = np.arange(0, rows * n + 1, n)
    digits = -(-bits // 8)
    given_all: Any = (flat, *pairs, given, *beside, bounds, digits, order.flip)
    sort_segments[bounds.size - 1, 1](*given_all, is_cut=is_cut, **how)
    at = digits % 2
    return pairs[at].reshape(rows, n), None if gives == "keys" else beside[at].reshape(rows, n)
