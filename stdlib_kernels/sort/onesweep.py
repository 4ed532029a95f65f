"""Radix sort of long rows on a GPU: one pass over memory for each digit of eight bits.

All digits are counted first. Then each block takes the next part of a row and ranks its elements by
their digit. It looks back for the number of elements of each digit in the earlier parts. Then it
moves its elements to their positions, those of one digit together.

References
----------
Andy Adinets and Duane Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for GPUs",
arXiv:2206.01784, 2022.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch
from stdlib_kernels.arrays import allocate
from stdlib_kernels.checks import Array

__all__ = ["Order", "as_words", "order_of", "sort_long_rows"]

#: Values of a digit.
RADIX = 256
#: Threads of a block, and bytes that it holds in shared memory besides its counters.
BLOCK, HELD_BYTES = 384, 30720
#: The largest number of elements of a thread, for keys only and for pairs: a multiprocessor has
#: registers for two blocks. With 20 keys a thread spills 48 bytes, and 2**26 of them are sorted 3 %
#: sooner.
MAX_KEYS, MAX_PAIRS = 20, 15
#: Threads of a block that counts, and elements that it counts.
COUNTING, CHUNK = 256, 1 << 14
#: Number of elements up to which blocks publish counts in 32 bits.
MAX_NARROW = 1 << 30


@kd.kernel(wraparound=False)
def count_digits(keys, counts, flip, parts, *, block, chunk, digits, digit):
    """Count all digits: ``keys[rows, n], counts[digits, rows, 256]``."""
    own = kd.shared.array((digits, RADIX), kd.int32)
    t, row, n = kd.threadIdx.x, kd.blockIdx.x // parts, keys.shape[1]
    for d in range(t, RADIX, block):
        for k in range(digits):
            own[k, d] = 0
    kd.syncthreads()
    first = kd.blockIdx.x % parts * chunk
    for i in range(first + t, min(first + chunk, n), block):
        w = keys[row, i]
        for k in range(digits):
            kd.atomic.add(own, (k, digit(w, flip, k)), 1)
    kd.syncthreads()
    for d in range(t, RADIX, block):
        for k in range(digits):
            if own[k, d] != 0:
                kd.atomic.add(counts, (k, row, d), own[k, d])


@kd.kernel(wraparound=False, launch_bounds=(BLOCK, 2))
def move_by_digit(
    keys, out, values, out_values, counts, state, begun, flip, k, parts,
    *, block, items, digit, key, value, gives, bytes_held, flag, place,
):  # fmt: skip
    """Sort rows by one digit, keeping the order of equal ones: ``keys[rows, n], out[rows, n]``.

    ``counts[rows, 256]`` is how many there are of each digit, ``begun[1]`` how many blocks have
    begun. ``state[rows * parts * 256]`` has an entry for each part and digit. It is 0, or the count
    of the part and ``1 << flag``, or the count up to this part and ``2 << flag``. `gives` names
    what is moved beside the keys: nothing (``"keys"``), ``"values"``, or ``"places"``.
    """
    # A warp's number of 64 bits would take another register of each thread, besides those that
    # spill.
    t, lane, warp = kd.threadIdx.x, kd.laneid, kd.int32(kd.threadIdx.x // 32)
    held = kd.shared.array(bytes_held, kd.uint8)
    peers_of, held_keys = held.view(kd.uint32), held.view(key)
    seen = kd.shared.array((block // 32, RADIX), kd.int32)
    offsets = kd.shared.array(RADIX, place)
    number = kd.shared.array(1, kd.int32)
    own = kd.local.array(items, key)
    places = kd.local.array(items, kd.int32)
    if t == 0:
        number[0] = kd.atomic.add(begun, 0, 1)
    for j in range(t, RADIX * (block // 32), block):
        seen[j // RADIX, j % RADIX] = 0
        peers_of[j] = 0
    kd.syncthreads()
    part, n = number[0], place(keys.shape[1])
    row = place(kd.uint32(part) // kd.uint32(parts))
    first = place(part - row * parts) * items * block
    mine = first + warp * 32 * items + lane
    for j in range(items):
        own[j] = keys[row, mine + 32 * j] if mine + 32 * j < n else key(0)
    # Indices after the last element count as the highest digit, and are its last ones.
    for j in range(items):
        d = digit(own[j], flip, k) if mine + 32 * j < n else kd.int32(RADIX - 1)
        kd.atomic.or_(peers_of, warp * RADIX + d, kd.uint32(1) << kd.uint32(lane))
        kd.syncwarp()
        peers, before = peers_of[warp * RADIX + d], seen[warp, d]
        kd.syncwarp()
        lower = peers & kd.lanemask_lt()
        if lower == 0:
            peers_of[warp * RADIX + d] = 0
            seen[warp, d] = before + kd.popc(peers)
        kd.syncwarp()
        places[j] = before + kd.popc(lower)
    kd.syncthreads()
    total = kd.int32(0)
    if t < RADIX:
        for w in range(block // 32):
            count = seen[w, t]
            seen[w, t] = total
            total += count
        kd.atomic.store(state, part * RADIX + t, state.dtype.type(total | (1 << flag)))
    begin = kd.block.exclusive_scan(kd.int32(total))
    start = kd.block.exclusive_scan(counts[row, t] if t < RADIX else 0)
    if t < RADIX:
        for w in range(block // 32):
            seen[w, t] += begin
    kd.syncthreads()
    for j in range(items):
        d = digit(own[j], flip, k) if mine + 32 * j < n else kd.int32(RADIX - 1)
        places[j] += seen[warp, d]
        held_keys[places[j]] = own[j]
    if t < RADIX:
        earlier, p = 0, part - 1
        while p >= row * parts:
            found = kd.int64(kd.atomic.load(state, p * RADIX + t))
            if found >> flag:
                earlier += found & ((1 << flag) - 1)
                p = p - 1 if found >> flag == 1 else -1
        whole = (earlier + total) | (2 << flag)
        kd.atomic.store(state, part * RADIX + t, state.dtype.type(whole))
        offsets[t] = start + earlier - begin
    kd.syncthreads()
    targets = kd.local.array(items, place)
    for j in range(items):
        i = j * block + t
        if first + i < n:
            w = held_keys[i]
            targets[j] = offsets[digit(w, flip, k)] + i
            out[row, targets[j]] = w
    if gives != "keys":
        held_values = held.view(value)
        kd.syncthreads()
        for j in range(items):
            i = mine + 32 * j
            if i < n:
                held_values[places[j]] = i if gives == "places" else values[row, i]
        kd.syncthreads()
        for j in range(items):
            i = j * block + t
            if first + i < n:
                out_values[row, targets[j]] = held_values[i]


def sort_long_rows(
    keys: Array, values: Array | None, order: Order, gives: str
) -> tuple[Array, Array | None]:
    """Sort the words of each row, as `sort_rows` does: ``keys[rows, n]``."""
    rows, n = keys.shape
    digits = keys.dtype.itemsize
    counting = -(-n // CHUNK)
    counts = allocate(keys, (digits, rows, RADIX), np.dtype(np.int64), zero=True)
    launch(
        count_digits, rows * counting, COUNTING, keys, counts, order.flip, counting,
        block=COUNTING, chunk=CHUNK, digits=digits, digit=order.digit,
    )  # fmt: skip
    beside = keys.dtype
    if gives != "keys":
        short = np.dtype(np.int32 if n < 1 << 31 else np.int64)
        beside = short if values is None else values.dtype
    size = max(keys.dtype.itemsize, beside.itemsize)
    most = MAX_KEYS if gives == "keys" else MAX_PAIRS
    items = min(most, HELD_BYTES // (size * BLOCK))
    parts = -(-n // (items * BLOCK))
    is_narrow = n < MAX_NARROW
    word = np.dtype(np.uint32 if is_narrow else np.uint64)
    state = allocate(keys, (digits, rows * parts * RADIX), word, zero=True)
    begun = allocate(keys, (digits, 1), np.dtype(np.int64), zero=True)
    outs = [allocate(keys, keys.shape, keys.dtype) for _ in range(min(2, digits))]
    others = outs
    if gives != "keys":
        others = [allocate(keys, keys.shape, beside) for _ in outs]
    source, given = keys, keys if values is None else values
    for k in range(digits):
        out, out_values = outs[k % 2], others[k % 2]
        if k == digits - 1 and gives == "places":
            out_values = allocate(keys, keys.shape, np.dtype(np.int64))
        launch(
            move_by_digit, rows * parts, BLOCK,
            source, out, given, out_values, counts[k], state[k], begun[k], order.flip, k, parts,
            block=BLOCK, items=items, digit=order.digit, key=keys.dtype.type, value=beside.type,
            gives="values" if k and gives == "places" else gives,
            bytes_held=max(items * BLOCK * size, BLOCK // 32 * RADIX * 4),
            flag=30 if is_narrow else 61, place=np.int32 if is_narrow else np.int64,
        )  # fmt: skip
        source, given = out, out_values
    return source, None if gives == "keys" else given


# Elements as unsigned integers of the same order.
#
# Sorts move elements as words, unsigned integers of their size, and compare what a function makes
# of a word: -0 and 0 are equal there, all NaN are, and come last.
#
# See Terje Mathisen, in Michael Herf, "Radix Tricks", 2001: floats compared as integers.


class Order(NamedTuple):
    """An order of words: by their ranks, which are unsigned integers."""

    rank: Callable[[Any, Any], Any]
    """Rank of a word with `flip`, in kernels."""
    digit: Callable[[Any, Any, Any], Any]
    """Digit of a rank to the base of 256, by its number."""
    flip: Any
    """Mask of an exclusive or with ranks, so that code is the same for many orders."""
    last: Any
    """A word of the highest rank that an element has."""


def as_words(array: Array) -> Array:
    """Return a contiguous array's elements as unsigned integers, in the same memory."""
    return array.view(np.dtype(f"u{array.dtype.itemsize}"))


def order_of(dtype: np.dtype[Any], *, descending: bool) -> Order:
    """Return the order of the words of a dtype's elements."""
    word: Any = np.dtype(f"u{dtype.itemsize}").type
    ones = word(np.iinfo(word).max)
    sign = word(1 << (8 * dtype.itemsize - 1))
    flip = ones if descending else word(0)
    if dtype.kind in "biu":
        flip = word(flip ^ sign) if dtype.kind == "i" else flip
        return Order(*_of_integers(word), flip, word(ones ^ flip))
    infinity = np.array(np.inf, dtype).view(word)[()]
    last = word(infinity | sign) if descending else ones
    return Order(*_of_floats(word, infinity), flip, last)


@cache
def _of_integers(word: Any) -> tuple[Any, Any]:
    def rank(w: Any, flip: Any) -> Any:
        return word(w ^ flip)

    return rank, _digit_of(rank, word)


@cache
def _of_floats(word: Any, infinity: Any) -> tuple[Any, Any]:
    ones = word(np.iinfo(word).max)
    rest = word(ones >> word(1))
    sign = word(ones ^ rest)

    def rank(w: Any, flip: Any) -> Any:
        size = w & rest
        if size > infinity:
            return word(ones ^ flip)
        if size == 0:
            return word(sign ^ flip)
        return word(w ^ (ones if w & sign else sign) ^ flip)

    return rank, _digit_of(rank, word)


def _digit_of(rank: Any, word: Any) -> Any:
    if word is np.uint64:
        return lambda w, flip, k: np.int32((rank(w, flip) >> np.uint64(8 * k)) & np.uint64(255))
    # A byte, and three of zero: one instruction of a GPU.
    return lambda w, flip, k: np.int32(kd.byte_perm(rank(w, flip), 0, 0x4440 + k))
