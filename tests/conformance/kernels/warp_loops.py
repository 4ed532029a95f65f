"""Loops around exchanges that warps, or groups of lanes, leave at different times."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.conformance.kernels.warps import live_lanes
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("warp_loops")
CASES = _list.cases

_FULL = 0xFFFFFFFF
_BLOCKS = (32, 64, 96, 33, 80, 5)


def _numbers(threads, *outputs, low=0, high=12):
    def make(rng):
        size = 2 * threads
        return rng.integers(low, high, size), *(poisoned(size, np.int64) for _ in range(outputs[0]))

    return make


def _add(kernel, *, outputs=1, blocks=_BLOCKS, low=0, high=12):
    for threads in blocks:
        _list.add(
            f"{kernel.__name__}_{threads}",
            kernel,
            _numbers(threads, outputs, low=low, high=high),
            grid=(2,),
            block=(threads,),
        )


@kd.kernel
def while_any(x, out, steps):
    # Each warp counts down until all its lanes are done.
    i = kd.grid(1)
    mask = (1 << live_lanes()) - 1
    v = x[i]
    n = 0
    while kd.any_sync(mask, v > 0):
        v -= 1 + i % 2
        n += 1
    out[i] = v
    steps[i] = n


_add(while_any, outputs=2)


@kd.kernel
def for_until_all(x, out, last):
    # The loop counts alike for all warps; each leaves it when it is done.
    i = kd.grid(1)
    mask = (1 << live_lanes()) - 1
    n = 0
    k = -1
    for k in range(20):
        if kd.all_sync(mask, x[i] < k):
            break
        n += x[i] % 3
    out[i] = n
    last[i] = k


_add(for_until_all, outputs=2)


@kd.kernel
def range_of_warps(x, out, last):
    i = kd.grid(1)
    mask = (1 << live_lanes()) - 1
    count = kd.reduce_min_sync(mask, x[i]) + kd.threadIdx.x // 32
    total = 0
    k = 100
    for k in range(count, 3 * count + 1, 2):
        total += kd.reduce_add_sync(mask, x[i] * k)
    for j in range(count):
        total -= kd.reduce_max_sync(mask, x[i] + j)
    for j in range(5, -count, -3):
        total += j * kd.popc(kd.ballot_sync(mask, x[i] > j))
    out[i] = total
    last[i] = k


_add(range_of_warps, outputs=2)


@kd.kernel
def groups_of_lanes(x, out):
    # The lanes that have one number go around as often as it says, among themselves.
    i = kd.grid(1)
    mask = kd.match_any_sync((1 << live_lanes()) - 1, x[i])
    total = 0
    for k in range(x[i]):
        if k % 4 == 1:
            continue
        total += kd.reduce_add_sync(mask, i + k)
        if total % 5 == 0:
            break
        total += 1
    else_count = 0
    while else_count < x[i] // 2:
        else_count += 1
        total += kd.shfl_sync(mask, total, kd.ffs(mask) - 1)
    out[i] = total


_add(groups_of_lanes)


@kd.kernel
def nested(x, out, count):
    i = kd.grid(1)
    mask = (1 << live_lanes()) - 1
    warp = kd.threadIdx.x // 32
    total = 0
    rounds = 0
    for outer in range(warp + 2):
        left = x[i] + outer
        while True:
            if kd.all_sync(mask, left <= 0):
                break
            left -= 2
            for inner in range(3):
                if inner == outer:
                    continue
                total += kd.reduce_add_sync(mask, left * inner)
            if kd.any_sync(mask, total % 7 == 3):
                rounds += 1
                continue
            total += 1
        if kd.any_sync(mask, total > 400):
            break
    out[i] = total
    count[i] = rounds


_add(nested, outputs=2, blocks=(64, 96, 40))


@kd.kernel
def with_returns(x, out, n):
    i = kd.grid(1)
    out[i] = -1
    mask = (1 << live_lanes()) - 1
    v = x[i]
    for k in range(50):
        if kd.all_sync(mask, v <= 0):
            if kd.threadIdx.x >= n:
                return
            break
        v -= 1
        if kd.any_sync(mask, k > 6 and v == 3):
            out[i] = -2
            return
    out[i] = v + kd.reduce_add_sync(mask, v)


for _threads in (64, 96):

    def _to_return(rng, threads=_threads):
        return rng.integers(0, 12, 2 * threads), poisoned(2 * threads, np.int64), 64

    _list.add(f"with_returns_{_threads}", with_returns, _to_return, grid=(2,), block=(_threads,))


@kd.kernel
def between_barriers(x, out):
    s = kd.shared.array(96, np.int64)
    i = kd.grid(1)
    t = kd.threadIdx.x
    s[t] = x[i]
    kd.syncthreads()
    for part in range(3):
        v = s[kd.blockDim.x - 1 - t]
        kd.syncthreads()
        if t // 32 != part:
            while kd.any_sync(_FULL, v % 8 != 0):
                v += 1 if v % 8 != 0 else 0
        s[t] = v + part
        kd.syncthreads()
    out[i] = s[t]


_add(between_barriers, blocks=(32, 96))


@kd.func
def settled(mask, value):
    """Halve what is even in turns, until the lanes of the mask agree that nothing is."""
    turns = 0
    while kd.any_sync(mask, value % 2 == 0 and value > 0):
        if value % 2 == 0:
            value //= 2
        turns += 1
    return value * 100 + turns


@kd.kernel
def in_functions(x, out):
    i = kd.grid(1)
    mask = (1 << live_lanes()) - 1
    if kd.threadIdx.x // 32 % 2 == 0:
        out[i] = settled(mask, x[i])
    else:
        out[i] = settled(mask, x[i] + 4) + settled(mask, x[i] * 8)


_add(in_functions, blocks=(32, 96, 72), high=100)


@kd.kernel
def strided(x, out, n):
    # Every warp walks over its own rows, lanes over columns of all of them.
    warp = kd.blockIdx.x * (kd.blockDim.x // 32) + kd.threadIdx.x // 32
    for row in range(warp, n, kd.gridDim.x * (kd.blockDim.x // 32)):
        total = 0
        for column in range(kd.laneid, x.shape[1], 32):
            total += x[row, column]
        total = kd.reduce_add_sync(_FULL, total)
        if kd.laneid == 0:
            out[row] = total


for _rows in (1, 7, 50):

    def _matrix(rng, rows=_rows):
        return rng.integers(-99, 99, (rows, 45)), poisoned(rows, np.int64), rows

    _list.add(
        f"strided_{_rows}",
        strided,
        _matrix,
        grid=(3,),
        block=(96,),
        expected=lambda x, out, n: {1: x.sum(axis=1)},
    )


@kd.kernel
def narrow_ranges(x, out):
    # The loop's variable has the type of the range.
    i = kd.grid(1)
    total = 0
    for k in range(x[i // 32 * 32]):
        total += np.int64(kd.shfl_sync(_FULL, kd.popc(k), k)) + k
    out[i] = total


for _dtype in ("int8", "uint8", "int32", "uint32", "uint64"):

    def _short(rng, dtype=_dtype):
        return rng.integers(0, 20, 64).astype(dtype), poisoned(64, np.int64)

    _list.add(f"narrow_ranges_{_dtype}", narrow_ranges, _short, block=(64,))
