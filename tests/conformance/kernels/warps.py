"""Exchanges between the lanes of a warp: every width, dtype and shape of control.

What CUDA leaves undefined is left out: a mask names lanes that are there, and what a shuffle reads
of a lane that is not there is not looked at.
"""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("warps")
CASES = _list.cases

_FULL = 0xFFFFFFFF
_SHUFFLED = ("int32", "int64", "uint32", "uint64", "float32", "float64")


def _volume(block):
    return int(np.prod(block))


def _random(block, blocks, dtype, *scalars, outputs=1):
    """Arguments (x, out, *scalars): one element a thread, `outputs` results of each."""

    def make(rng):
        size = _volume(block) * blocks
        shape = size if outputs == 1 else (size, outputs)
        return random_array(rng, size, dtype), poisoned(shape, dtype), *scalars

    return make


def _small(rng, size):
    return rng.integers(-1000, 1000, size)


def _small_integers(block, blocks):
    """Arguments (x, out) with which sums and products do not overflow."""
    return lambda rng: (_small(rng, block * blocks), poisoned(block * blocks, np.int64))


@kd.func
def linear_thread():
    row = kd.threadIdx.z * kd.blockDim.y + kd.threadIdx.y
    return row * kd.blockDim.x + kd.threadIdx.x


@kd.func
def live_lanes():
    """How many lanes this thread's warp has."""
    threads = kd.blockDim.x * kd.blockDim.y * kd.blockDim.z
    return min(threads - linear_thread() // 32 * 32, 32)


@kd.kernel
def shuffles(x, out, k):
    i = kd.blockIdx.x * (kd.blockDim.x * kd.blockDim.y * kd.blockDim.z) + linear_thread()
    lane = kd.laneid
    live = live_lanes()
    mask = (1 << live) - 1
    v = x[i]
    near = k % 32
    got = kd.shfl_sync(mask, v, k)
    out[i, 0] = got if near < live else v
    got = kd.shfl_up_sync(mask, v, k)
    out[i, 1] = got
    got = kd.shfl_down_sync(mask, v, k)
    out[i, 2] = got if lane + near < live or lane + near > 31 else v
    got = kd.shfl_xor_sync(mask, v, k)
    out[i, 3] = got if (lane ^ near) < live else v


for _width in (*range(1, 34), 64, 96, 1024):
    _list.add(
        f"shuffles_of_{_width}",
        shuffles,
        _random((_width,), 2, np.int64, _width % 37, outputs=4),
        grid=(2,),
        block=(_width,),
    )
for _block in ((8, 4), (5, 7), (33, 2), (3, 4, 5), (1, 1, 40), (2, 16, 3)):
    _list.add(
        f"shuffles_of_{'x'.join(map(str, _block))}",
        shuffles,
        _random(_block, 2, np.int32, 3, outputs=4),
        grid=(2,),
        block=_block,
    )
for _dtype in _SHUFFLED:
    for _lane in (0, 1, 17, 31, 32, 45, -1):
        _list.add(
            f"shuffles_{_dtype}_{_lane}",
            shuffles,
            _random((96,), 1, _dtype, _lane, outputs=4),
            block=(96,),
        )


@kd.kernel
def narrow_shuffles(x, out):
    i = kd.grid(1)
    out[i] = kd.shfl_xor_sync(_FULL, x[i], 5)


for _dtype in ("bool", "int8", "int16", "uint8", "uint16"):

    def _narrow(rng, dtype=_dtype):
        return random_array(rng, 64, dtype), poisoned(64, np.int64)

    _list.add(f"narrow_shuffles_{_dtype}", narrow_shuffles, _narrow, block=(64,))


@kd.kernel
def lanes_of_their_own(x, lanes, out):
    i = kd.grid(1)
    out[i, 0] = kd.shfl_sync(_FULL, x[i], lanes[i])
    out[i, 1] = kd.shfl_xor_sync(_FULL, x[i], lanes[i])


def _lanes_of_their_own(rng):
    x = random_array(rng, 128, np.float32)
    return x, rng.integers(-40, 70, 128).astype(np.int32), poisoned((128, 2), np.float32)


_list.add("lanes_of_their_own", lanes_of_their_own, _lanes_of_their_own, grid=(2,), block=(64,))


@kd.kernel
def named_lanes(x, masks, out):
    # The lanes of a mask go apart from the others, and exchange values among themselves.
    i = kd.grid(1)
    mask = masks[i // 32]
    others = mask ^ _FULL
    v = x[i]
    if mask >> kd.laneid & 1:
        source = kd.laneid
        for k in range(32):
            if mask >> k & 1 and k < kd.laneid:
                source = k
        out[i] = kd.shfl_sync(mask, v, source) * 2
    else:
        got = kd.shfl_down_sync(others, v, 1)
        out[i] = got if others >> (kd.laneid + 1) & 1 and kd.laneid < 31 else -v


def _masks(rng):
    masks = rng.integers(0, 2**32, 6, dtype=np.uint32).astype(np.int64)
    masks[0] = _FULL
    return _small(rng, 192), masks, poisoned(192, np.int64)


_list.add("named_lanes", named_lanes, _masks, grid=(2,), block=(96,))


@kd.kernel
def in_expressions(x, out):
    i = kd.grid(1)
    v = x[i]
    lane = kd.laneid
    out[i] = v * 3 + kd.shfl_up_sync(_FULL, v + 1, 1) * kd.shfl_down_sync(_FULL, v - 1, lane % 2)
    if kd.shfl_sync(_FULL, v, 0) > 0:
        out[i] -= 1
    kd.shfl_sync(_FULL, v, 3)
    v = kd.shfl_xor_sync(_FULL, kd.shfl_xor_sync(_FULL, v, 1), 2)
    x[i] = v


_list.add("in_expressions", in_expressions, _small_integers(64, 3), grid=(3,), block=(64,))


@kd.kernel
def of_one_value(x, out):
    # The exchange of values that all threads agree on, and a variable that another warp leaves.
    i = kd.grid(1)
    total = np.int64(0)
    for k in range(4):
        total += kd.shfl_down_sync(_FULL, k, 1) + kd.shfl_sync(_FULL, x[0], k)
    out[i] = total


_list.add("of_one_value", of_one_value, _small_integers(64, 2), grid=(2,), block=(64,))


@kd.func
def sum_of_warp(value):
    offset = 16
    while offset > 0:
        value += kd.shfl_down_sync(_FULL, value, offset)
        offset //= 2
    return value


@kd.kernel
def reduce_blocks(x, out):
    partial = kd.shared.array(32, np.int64)
    i = kd.grid(1)
    value = x[i] if i < x.size else 0
    lane = kd.threadIdx.x % 32
    warp = kd.threadIdx.x // 32
    for offset in (16, 8, 4, 2, 1):
        value += kd.shfl_down_sync(_FULL, value, offset)
    if lane == 0:
        partial[warp] = value
    kd.syncthreads()
    if warp == 0:
        value = partial[lane] if lane < kd.blockDim.x // 32 else 0
        for offset in (16, 8, 4, 2, 1):
            value += kd.shfl_down_sync(_FULL, value, offset)
        if lane == 0:
            kd.atomic.add(out, 0, value)


def _sum(x, out):
    return {1: np.array([x.sum()])}


for _threads in (32, 64, 256, 1024):

    def _to_sum(rng):
        return rng.integers(-(2**60), 2**60, 5000), np.zeros(1, np.int64)

    _list.add(
        f"reduce_blocks_{_threads}",
        reduce_blocks,
        _to_sum,
        grid=(-(-5000 // _threads),),
        block=(_threads,),
        expected=_sum,
    )


@kd.kernel
def reduce_in_functions(x, out):
    partial = kd.shared.array(32, np.float64)
    i = kd.grid(1)
    value = sum_of_warp(x[i])
    if kd.laneid == 0:
        partial[kd.threadIdx.x // 32] = value
    kd.syncthreads()
    if kd.threadIdx.x < 32:
        value = 0.0
        if kd.threadIdx.x < kd.blockDim.x // 32:
            value = partial[kd.threadIdx.x]
        value = sum_of_warp(value)
        if kd.threadIdx.x == 0:
            out[kd.blockIdx.x] = value


def _whole_numbers(rng):
    return rng.integers(-1000, 1000, 768).astype(np.float64), poisoned(3, np.float64)


def _block_sums(x, out):
    return {1: x.reshape(3, 256).sum(axis=1)}


_list.add(
    "reduce_in_functions",
    reduce_in_functions,
    _whole_numbers,
    grid=(3,),
    block=(256,),
    expected=_block_sums,
)


@kd.kernel
def scan_warps(x, out):
    i = kd.grid(1)
    value = x[i]
    lane = kd.laneid
    step = 1
    while step < 32:
        below = kd.shfl_up_sync(_FULL, value, step)
        if lane >= step:
            value += below
        step *= 2
    out[i] = value


def _scans(x, out):
    return {1: np.cumsum(x.reshape(-1, 32), axis=1).ravel()}


_list.add(
    "scan_warps",
    scan_warps,
    _random((128,), 2, np.int64),
    grid=(2,),
    block=(128,),
    expected=_scans,
)


@kd.kernel
def after_return(x, out, n):
    # The threads of whole warps leave; those that stay exchange values.
    i = kd.grid(1)
    if i >= n:
        return
    v = kd.shfl_xor_sync(_FULL, x[i], 1)
    if x[0] > 0 and kd.threadIdx.x // 32 == 1:
        return
    out[i] = v + kd.shfl_xor_sync(_FULL, v, 4)


def _to_leave(rng):
    return _small(rng, 192), poisoned(192, np.int64), 160


_list.add("after_return", after_return, _to_leave, grid=(2,), block=(96,))


@kd.kernel
def between_barriers(x, out):
    s = kd.shared.array(96, np.float32)
    t = kd.threadIdx.x
    for k in range(3):
        s[t] = kd.shfl_xor_sync(_FULL, x[kd.grid(1)], k)
        kd.syncthreads()
        other = s[kd.blockDim.x - 1 - t]
        if kd.syncthreads_or(kd.shfl_sync(_FULL, other, 7) > 0):
            out[kd.grid(1), k] = kd.shfl_up_sync(_FULL, other, 1)
        else:
            out[kd.grid(1), k] = other
        kd.syncthreads()


_list.add(
    "between_barriers",
    between_barriers,
    _random((96,), 2, np.float32, outputs=3),
    grid=(2,),
    block=(96,),
)


@kd.kernel
def votes(x, out):
    i = kd.blockIdx.x * (kd.blockDim.x * kd.blockDim.y * kd.blockDim.z) + linear_thread()
    mask = (1 << live_lanes()) - 1
    out[i, 0] = kd.ballot_sync(mask, x[i] > 0)
    out[i, 1] = kd.all_sync(mask, x[i])
    out[i, 2] = kd.any_sync(mask, x[i])
    out[i, 3] = kd.popc(kd.ballot_sync(mask, x[i])) + kd.popc(x[i])


def _mostly(block, dtype, share):
    """Some warps agree, some do not."""

    def make(rng):
        size = _volume(block) * 2
        x = rng.integers(0, 100, size).astype(dtype)
        x[rng.random(size) < share] = 0
        return x, poisoned((size, 4), np.int64)

    return make


for _share in (0, 0.1, 0.9, 1):
    for _block in (
        *((n,) for n in (1, 2, 31, 32, 33, 63, 64, 96, 1000, 1024)),
        *((8, 4), (5, 7), (3, 4, 5), (2, 16, 3)),
    ):
        _list.add(
            f"votes_of_{'x'.join(map(str, _block))}_{_share}",
            votes,
            _mostly(_block, np.int64, _share),
            grid=(2,),
            block=_block,
        )
for _dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64"):
    _list.add(f"votes_{_dtype}", votes, _mostly((96,), _dtype, 0.03), grid=(2,), block=(96,))


@kd.kernel
def votes_of_named_lanes(x, masks, out):
    # Both sides of a condition that varies within the warp vote, each for itself.
    i = kd.grid(1)
    mask = masks[i // 32]
    others = mask ^ _FULL
    if mask >> kd.laneid & 1:
        out[i] = kd.ballot_sync(mask, x[i] > 0)
    else:
        out[i] = -2 if kd.all_sync(others, x[i] > -900) else -3
        if kd.any_sync(others, x[i] > 900):
            out[i] -= 10


_list.add("votes_of_named_lanes", votes_of_named_lanes, _masks, grid=(2,), block=(96,))


@kd.func
def rank_among(mask, predicate):
    """How many lanes below this one have a predicate that is true."""
    return kd.popc(kd.ballot_sync(mask, predicate) & ((1 << kd.laneid) - 1))


@kd.kernel
def compact(x, out, counter):
    # Warps append what passes a test, with one atomic for each warp.
    i = kd.grid(1)
    keep = x[i] % 3 == 0
    rank = rank_among(_FULL, keep)
    count = kd.popc(kd.ballot_sync(_FULL, keep))
    start = 0
    if kd.laneid == 0:
        start = kd.atomic.add(counter, 0, count)
    start = kd.shfl_sync(_FULL, start, 0)
    if keep:
        out[i // 32, rank] = x[i] + 0 * start


def _to_compact(rng):
    x = rng.integers(0, 1000, 256)
    return x, np.full((8, 32), -1), np.zeros(1, np.int64)


def _compacted(x, out, counter):
    for warp, values in enumerate(x.reshape(8, 32)):
        kept = values[values % 3 == 0]
        out[warp, : kept.size] = kept
    return {1: out, 2: np.array([np.count_nonzero(x % 3 == 0)])}


_list.add("compact", compact, _to_compact, grid=(2,), block=(128,), expected=_compacted)


@kd.kernel
def until_all_are_done(x, out):
    # A loop that every warp of the block leaves at once: the vote is of the block, then of warps.
    i = kd.grid(1)
    v = x[i]
    steps = 0
    while kd.syncthreads_or(kd.any_sync(_FULL, v > 1)):
        if v > 1:
            v = v // 2 if v % 2 == 0 else v - 1
        steps += 1
    out[i] = steps


def _countdowns(rng):
    return rng.integers(0, 200, 128), poisoned(128, np.int64)


_list.add("until_all_are_done", until_all_are_done, _countdowns, grid=(2,), block=(64,))


@kd.kernel
def shuffled_before_a_loop(x, out, other, rounds):
    # The loop may run outside the loop over threads, which the shuffle is in.
    i = kd.threadIdx.x + kd.blockDim.x * (kd.threadIdx.y + kd.blockDim.y * kd.blockIdx.x)
    out[i] = kd.shfl_xor_sync(_FULL, x[i], 1) - kd.shfl_up_sync(_FULL, x[i], 2)
    for k in range(rounds):
        other[i] = out[i] * k


def _before_a_loop(rng):
    return rng.integers(0, 200, 128), poisoned(128, np.int64), poisoned(128, np.int64), 3


for _block in ((64,), (16, 4)):
    _list.add(
        f"shuffled_before_a_loop_{len(_block)}d",
        shuffled_before_a_loop,
        _before_a_loop,
        grid=(2,),
        block=_block,
    )
