"""Kernels that count, sort and scan in shared memory."""

from __future__ import annotations

from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "sorting_and_scans"
f32, i32 = np.float32, np.int32
_BINS = 256
_THREADS = 1024


@kd.kernel
def histogram(x, counts):
    t = kd.threadIdx.x
    bins = kd.shared.array(_BINS, i32)
    bins[t] = 0
    kd.syncthreads()
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        kd.atomic.add(bins, x[i], 1)
    kd.syncthreads()
    kd.atomic.add(counts, t, bins[t])


@numba.njit(parallel=True)
def _histogram(x, counts):
    parts = numba.get_num_threads()
    bins = np.zeros((parts, _BINS), i32)
    for part in numba.prange(parts):
        for i in range(x.size * part // parts, x.size * (part + 1) // parts):
            bins[part, x[i]] += 1
    counts[:] = bins.sum(axis=0)


@kd.kernel
def sort_rows(x, out):
    row, t = kd.blockIdx.x, kd.threadIdx.x
    keys = kd.shared.array(_THREADS, f32)
    keys[t] = x[row, t]
    kd.syncthreads()
    span = 2
    while span <= kd.blockDim.x:
        step = span // 2
        while step > 0:
            other = t ^ step
            if other > t:
                low, high = keys[t], keys[other]
                if (low > high) == ((t & span) == 0):
                    keys[t] = high
                    keys[other] = low
            kd.syncthreads()
            step //= 2
        span *= 2
    out[row, t] = keys[t]


@numba.njit(parallel=True)
def _sort_rows(x, out):
    for row in numba.prange(x.shape[0]):
        out[row] = np.sort(x[row])


@kd.kernel
def scan_blocks(x, out, totals):
    i, t = kd.grid(1), kd.threadIdx.x
    sums = kd.shared.array(_THREADS, i32)
    sums[t] = x[i] if i < x.size else 0
    kd.syncthreads()
    step = 1
    while step < kd.blockDim.x:
        value = sums[t]
        if t >= step:
            value += sums[t - step]
        kd.syncthreads()
        sums[t] = value
        kd.syncthreads()
        step *= 2
    if i < x.size:
        out[i] = sums[t]
    if t == kd.blockDim.x - 1:
        totals[kd.blockIdx.x] = sums[t]


@kd.kernel
def add_totals(out, totals):
    i = kd.grid(1)
    if i < out.size and kd.blockIdx.x > 0:
        out[i] += totals[kd.blockIdx.x - 1]


@numba.njit(parallel=True)
def _prefix_sum(x, out):
    parts = numba.get_num_threads()
    totals = np.zeros(parts + 1, i32)
    for part in numba.prange(parts):
        total = i32(0)
        for i in range(x.size * part // parts, x.size * (part + 1) // parts):
            total += x[i]
        totals[part + 1] = total
    for part in numba.prange(parts):
        total = totals[: part + 1].sum()
        for i in range(x.size * part // parts, x.size * (part + 1) // parts):
            total += x[i]
            out[i] = total


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    rng = np.random.default_rng(7)
    return [
        _histogram_case(rng, libraries),
        _sort_case(rng, libraries),
        _prefix_sum_case(rng, libraries),
    ]


def _histogram_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    n = 1 << 22
    x = np.clip(rng.normal(128, 40, n), 0, 255).astype(np.uint8)
    counts = np.empty(_BINS, i32)

    def ours():
        counts.fill(0)
        histogram[64, _BINS](x, counts)

    def with_numpy():
        counts[:] = np.bincount(x, minlength=_BINS)

    rivals = {
        "prange": lambda: _histogram(x, counts),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "histogram", x, counts, n),
    }
    exact = np.array([np.count_nonzero(x == k) for k in range(_BINS)])
    return Case("histogram of bytes, shared atomics, 2^22", (counts,), (exact,), 0, ours, rivals)


def _sort_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    rows = 256
    x = rng.standard_normal((rows, _THREADS)).astype(f32)
    out = np.empty_like(x)

    def with_numpy():
        np.copyto(out, x)
        out.sort(axis=1)

    rivals = {
        "prange": lambda: _sort_rows(x, out),
        "numpy": with_numpy,
        **rivals_in_c(libraries, "sort_rows", x, out, rows, _THREADS),
    }
    return Case(
        "bitonic sort f32, a block a row, 256 x 1024",
        (out,),
        (np.array([sorted(row) for row in x.tolist()]),),
        0,
        lambda: sort_rows[rows, _THREADS](x, out),
        rivals,
    )


def _prefix_sum_case(rng: np.random.Generator, libraries: Mapping[str, CompiledC]) -> Case:
    blocks = _THREADS
    n = blocks * _THREADS
    x = rng.integers(0, 100, n).astype(i32)
    out, totals, last = np.empty_like(x), np.empty(blocks, i32), np.empty(1, i32)

    def ours():
        scan_blocks[blocks, _THREADS](x, out, totals)
        scan_blocks[1, _THREADS](totals, totals, last)
        add_totals[blocks, _THREADS](out, totals)

    rivals = {
        "prange": lambda: _prefix_sum(x, out),
        "numpy": lambda: np.cumsum(x, dtype=i32, out=out),
        **rivals_in_c(libraries, "prefix_sum", x, out, n),
    }
    exact = np.cumsum(x, dtype=np.int64)
    return Case("prefix sum i32, 2^20", (out,), (exact,), 0, ours, rivals)
