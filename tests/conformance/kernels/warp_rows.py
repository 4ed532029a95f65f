"""Warps that have work of their own, and threads that overwrite what their neighbours have read."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("warp_rows")
CASES = _list.cases

_FULL = 0xFFFFFFFF


# -- a row for each warp --------------------------------------------------------------------------


@kd.kernel
def rows_of_warps(starts, columns, values, x, y):
    row = kd.grid(1) // kd.warpsize
    lane = kd.laneid
    if row < y.size:
        total = values[0] * 0
        for k in range(starts[row] + lane, starts[row + 1], kd.warpsize):
            total += values[k] * x[columns[k]]
        step = kd.warpsize // 2
        while step > 0:
            total += kd.shfl_down_sync(_FULL, total, step)
            step //= 2
        if lane == 0:
            y[row] = total


def _rows(dtype, first):
    def make(rng):
        lengths = rng.choice((0, 1, 5, 31, 32, 33, 64, 70, 100), 13)
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32) + np.int32(first)
        count = int(lengths.sum()) + 1
        columns = rng.integers(-40, 40, count).astype(np.int32)
        values, x = (random_array(rng, n, dtype) for n in (count, 40))
        # A start below 0 counts from the end, as every index does.
        return starts, columns, values, x, poisoned(13, dtype)

    return make


for _dtype in ("int32", "int64", "uint64"):
    for _first in (0, -3):
        _list.add(
            f"rows_{_dtype}_{_first}",
            rows_of_warps,
            _rows(_dtype, _first),
            grid=(4,),
            block=(128,),
        )


@kd.kernel
def planes_of_warps(x, out):
    # The warps of a plane, each with a loop that its own values end.
    i = kd.threadIdx.x + kd.blockDim.x * (kd.threadIdx.y + kd.blockDim.y * kd.threadIdx.z)
    lane = i & (kd.warpsize - 1)
    value = x[i]
    rounds = 0
    while kd.any_sync(_FULL, value > rounds):
        value -= kd.shfl_xor_sync(_FULL, value, 1 + rounds % 3) % 5
        rounds += 1
        if rounds > 20:
            break
    first = kd.shfl_sync(_FULL, value, lane // 8)
    out[i, 0], out[i, 1] = value, rounds + 100 * first
    if (i >> 5) % 2 == 1:
        out[i, 2] = kd.shfl_up_sync(_FULL, value * 3, i // 64) + i % 64
    else:
        out[i, 2] = kd.popc(kd.ballot_sync(_FULL, value > lane))


for _block, _count in (((64,), 64), ((32, 3), 96), ((64, 2, 2), 256)):
    _list.add(
        f"planes_{'x'.join(map(str, _block))}",
        planes_of_warps,
        lambda rng, n=_count: (
            rng.integers(-10, 40, n),
            poisoned((n, 3), np.int64),
        ),
        block=_block,
    )


@kd.kernel
def groups_within_warps(keys, x, out):
    # Lanes of one key have a result of their own, by which they go different ways.
    i = kd.grid(1)
    same = kd.match_any_sync(_FULL, keys[i])
    total = kd.reduce_add_sync(same, x[i])
    out[i] = total
    if total > 0:
        out[i] = kd.reduce_max_sync(same, x[i]) * 1000


_list.add(
    "groups_within_warps",
    groups_within_warps,
    lambda rng: (rng.integers(0, 3, 128), rng.integers(-9, 9, 128), poisoned(128, np.int64)),
    grid=(2,),
    block=(64,),
)


# -- neighbours -----------------------------------------------------------------------------------


def _scan(dtype):
    @kd.kernel
    def scan_of_block(x, out, step):
        t = kd.threadIdx.x
        sums = kd.shared.array(256, dtype)
        sums[t] = x[t]
        kd.syncthreads()
        while step < kd.blockDim.x:
            value = sums[t]
            if t >= step:
                value += sums[t - step]
            kd.syncthreads()
            sums[t] = value
            kd.syncthreads()
            step *= 2
        out[t] = sums[t]
        if t == kd.blockDim.x - 1:
            out[kd.blockDim.x] = sums[t]

    return scan_of_block


@kd.kernel
def neighbours(x, out, n):
    # Values go up by one place and down by `n`, and what stood there has been read before.
    t = kd.threadIdx.x
    cells = kd.shared.array(300, np.int32)
    for k in range(t, 300, kd.blockDim.x):
        cells[k] = k
    kd.syncthreads()
    cells[t] = x[t]
    kd.syncthreads()
    for k in range(3):
        above = cells[t + n] if n >= 0 else 7
        kd.syncthreads()
        cells[t] = above + k
        kd.syncthreads()
        below = cells[t - 1] if t > 0 else 5
        kd.syncthreads()
        cells[t] = cells[t] * 3 + below
        kd.syncthreads()
    out[t] = cells[t]


@kd.kernel
def adds_what_others_had(x, out):
    # A value from before is read, changed and read again on the other side.
    t = kd.threadIdx.x
    cells = kd.shared.array(128, np.int64)
    cells[t] = x[t]
    value = x[t] * 10
    kd.syncthreads()
    value = value + cells[(t + 123) % 128]
    kd.syncthreads()
    other = value
    kd.syncthreads()
    if t > 5:
        value += cells[t - 5]
    kd.syncthreads()
    cells[t] = value
    kd.syncthreads()
    out[t] = cells[127 - t] * 1000 + other


_list.add(
    "adds_what_others_had",
    adds_what_others_had,
    lambda rng: (rng.integers(0, 9, 128), poisoned(128, np.int64)),
    block=(128,),
)

for _threads in (64, 128, 256):
    for _dtype in ("int32", "uint8", "float32"):
        _list.add(
            f"scan_{_threads}_{_dtype}",
            _scan(np.dtype(_dtype).type),
            lambda rng, n=_threads, dtype=_dtype: (
                rng.integers(0, 90, n).astype(dtype),
                poisoned(n + 1, dtype),
                1,
            ),
            block=(_threads,),
        )
    for _shift in (0, 1, 17, 40):
        _list.add(
            f"neighbours_{_threads}_{_shift}",
            neighbours,
            lambda rng, n=_threads, shift=_shift: (
                rng.integers(-99, 99, n).astype(np.int32),
                poisoned(n, np.int32),
                shift,
            ),
            block=(_threads,),
        )
