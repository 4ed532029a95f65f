"""Voting barriers, warp barriers and fences."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("synchronization")
CASES = _list.cases


def _ints(blocks, threads, columns=1):
    def make(rng):
        size = blocks * threads
        shape = (size, columns) if columns > 1 else size
        return rng.integers(-3, 4, size), poisoned(shape, np.int64)

    return make


@kd.kernel
def votes_as_statements(x, out):
    i = kd.grid(1)
    count = kd.syncthreads_count(x[i] > 0)
    every = kd.syncthreads_and(x[i] > -4)
    some = kd.syncthreads_or(x[i] == 3)
    out[i, 0] = count
    out[i, 1] = every
    out[i, 2] = some
    out[i, 3] = kd.syncthreads_and(x[i])
    out[i, 4] = kd.syncthreads_or(x[i] * 0)
    kd.syncthreads_count(x[i])


_list.add("votes_as_statements", votes_as_statements, _ints(3, 45, 5), grid=(3,), block=(45,))


@kd.kernel
def votes_see_writes(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    count = kd.syncthreads_count(s[t] > 0)
    value = s[(t + 1) % kd.blockDim.x]
    any_negative = kd.syncthreads_or(value < 0)
    s[t] = value + count
    every = kd.syncthreads_and(value < 100)
    out[kd.grid(1)] = s[kd.blockDim.x - 1 - t] + any_negative * 10 + every * 1000


_list.add("votes_see_writes", votes_see_writes, _ints(2, 33), grid=(2,), block=(33,))


@kd.kernel
def votes_in_conditions(x, out):
    i = kd.grid(1)
    out[i] = 0
    if kd.syncthreads_or(x[i] == 3):
        out[i] += 1
    if kd.syncthreads_and(x[i] < 3):
        out[i] += 10
    else:
        kd.syncthreads()
        out[i] += 20
    if kd.syncthreads_count(x[i] > 0) > kd.blockDim.x // 2:
        kd.syncthreads()
        out[i] += 100


_list.add("votes_in_conditions", votes_in_conditions, _ints(5, 20), grid=(5,), block=(20,))


@kd.kernel
def votes_in_while(x, out):
    i = kd.grid(1)
    value = x[i] + 5
    rounds = 0
    while kd.syncthreads_or(value > 0):
        value -= 1
        rounds += 1
        if kd.syncthreads_count(value > 0) == 1:
            rounds += 100
    out[i] = value * 1000 + rounds


_list.add("votes_in_while", votes_in_while, _ints(4, 18), grid=(4,), block=(18,))


@kd.func
def all_equal(value):
    first = kd.shared.array(1, np.int64)
    if kd.threadIdx.x == 0:
        first[0] = value
    kd.syncthreads()
    same = kd.syncthreads_and(first[0] == value)
    return same


@kd.kernel
def votes_in_functions(x, out):
    i = kd.grid(1)
    out[i] = all_equal(x[i]) + 2 * all_equal(kd.blockIdx.x)


_list.add("votes_in_functions", votes_in_functions, _ints(3, 18), grid=(3,), block=(18,))


@kd.kernel
def votes_after_return(x, out, n):
    i = kd.grid(1)
    if i >= n:
        return
    out[i] = kd.syncthreads_count(x[i] > 0) * 10 + kd.syncthreads_and(x[i] > -4)


def _votes_after_return(rng):
    return rng.integers(-3, 4, 96), poisoned(96, np.int64), 77


_list.add("votes_after_return", votes_after_return, _votes_after_return, grid=(3,), block=(32,))


@kd.kernel
def warp_exchange(x, out):
    s = kd.shared.array(128, np.int64)
    t = kd.threadIdx.x
    base = t - kd.laneid
    s[t] = x[kd.grid(1)]
    kd.syncwarp()
    other = s[base + (kd.laneid + 1) % kd.warpsize]
    kd.syncwarp()
    s[t] = other * 2
    kd.syncwarp(0xFFFFFFFF)
    out[kd.grid(1)] = s[base + kd.warpsize - 1 - kd.laneid]


_list.add("warp_exchange", warp_exchange, _ints(2, 96), grid=(2,), block=(96,))


@kd.kernel
def warp_uniform_control(x, out):
    s = kd.shared.array(128, np.int64)
    t = kd.threadIdx.x
    warp = t // 32
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    if warp == 1:
        value = s[t ^ 1]
        kd.syncwarp()
        s[t] = value + 100
        kd.syncwarp()
        out[kd.grid(1)] = s[t ^ 2]
    else:
        out[kd.grid(1)] = s[t]


_list.add("warp_uniform_control", warp_uniform_control, _ints(2, 96), grid=(2,), block=(96,))


@kd.kernel
def warp_masked(x, out):
    # Only the lanes that the mask names arrive; the condition varies within the warp.
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    if t % 2 == 0:
        value = s[t ^ 2]
        kd.syncwarp(0x55555555)
        s[t] = value + 100
    kd.syncthreads()
    out[kd.grid(1)] = s[kd.blockDim.x - 1 - t]


_list.add("warp_masked", warp_masked, _ints(2, 64), grid=(2,), block=(64,))


@kd.kernel
def warp_tail_reduction(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    if t < 32:
        s[t] += s[t + 32]
        kd.syncwarp()
        offset = 16
        while offset > 0:
            value = s[(t + offset) % 32]
            kd.syncwarp()
            s[t] += value
            kd.syncwarp()
            offset //= 2
        if t == 0:
            out[kd.blockIdx.x] = s[0]


def _one_per_block(rng):
    return rng.integers(-1000, 1000, 192), poisoned(3, np.int64)


_list.add("warp_tail_reduction", warp_tail_reduction, _one_per_block, grid=(3,), block=(64,))


@kd.kernel
def warp_barrier_in_loop(x, out, steps):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    for k in range(steps):
        kd.syncwarp()
        value = s[t ^ 1]
        kd.syncwarp()
        s[t] = value + k
    kd.syncthreads()
    out[kd.grid(1)] = s[kd.blockDim.x - 1 - t]


def _steps(rng):
    return rng.integers(-1000, 1000, 128), poisoned(128, np.int64), 5


_list.add("warp_barrier_in_loop", warp_barrier_in_loop, _steps, grid=(2,), block=(64,))


@kd.kernel
def fences(x, out):
    i = kd.grid(1)
    out[i] = x[i]
    kd.threadfence()
    out[i] += 1
    kd.threadfence_block()
    out[i] *= 2
    kd.threadfence_system()
    out[i] -= 3


_list.add("fences", fences, _ints(3, 45), grid=(3,), block=(45,))


@kd.kernel
def last_block_sums(x, partial, ticket, out):
    # The pattern of CUDA's threadFenceReduction sample: the block that finishes last adds up.
    s = kd.shared.array(64, np.int64)
    last = kd.shared.array(1, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    if t == 0:
        total = 0
        for k in range(kd.blockDim.x):
            total += s[k]
        partial[kd.blockIdx.x] = total
        kd.threadfence()
        last[0] = kd.atomic.add(ticket, 0, 1)
    kd.syncthreads()
    if last[0] == kd.gridDim.x - 1 and t == 0:
        total = 0
        for k in range(kd.gridDim.x):
            total += partial[k]
        out[0] = total


def _last_block(rng):
    return (
        rng.integers(-1000, 1000, 7 * 64),
        poisoned(7, np.int64),
        np.zeros(1, np.int64),
        poisoned(1, np.int64),
    )


_list.add("last_block_sums", last_block_sums, _last_block, grid=(7,), block=(64,))
