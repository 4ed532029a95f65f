"""Products of a sparse matrix in compressed rows with a vector."""

from __future__ import annotations

from collections.abc import Mapping

import numba
import numpy as np

import kerneldsl as kd
from lanes.case import Case, CompiledC, rivals_in_c

__all__ = ["SOURCE", "cases"]

#: Stored C source.
SOURCE = "sparse"
f32, i32 = np.float32, np.int32
_THREADS = 128
_WARP = 32
_ALL = 0xFFFFFFFF


@kd.kernel
def multiply_by_threads(starts, columns, values, x, y):
    row = kd.grid(1)
    if row < y.size:
        total = f32(0.0)
        for k in range(starts[row], starts[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


@kd.kernel
def multiply_by_warps(starts, columns, values, x, y):
    row = kd.grid(1) // kd.warpsize
    lane = kd.laneid
    if row < y.size:
        total = f32(0.0)
        for k in range(starts[row] + lane, starts[row + 1], kd.warpsize):
            total += values[k] * x[columns[k]]
        step = kd.warpsize // 2
        while step > 0:
            total += kd.shfl_down_sync(_ALL, total, step)
            step //= 2
        if lane == 0:
            y[row] = total


@numba.njit(parallel=True)
def _multiply(starts, columns, values, x, y):
    for row in numba.prange(y.size):
        total = f32(0.0)
        for k in range(starts[row], starts[row + 1]):
            total += values[k] * x[columns[k]]
        y[row] = total


def cases(libraries: Mapping[str, CompiledC]) -> list[Case]:
    """Return the comparisons; `libraries` are those of the C source, by name."""
    rng = np.random.default_rng(7)
    rows = 1 << 16
    short = _arguments(rng, rows, rng.integers(0, 33, rows))
    fewer = rows // 8
    long = _arguments(rng, fewer, rng.integers(64, 385, fewer))
    by_threads = multiply_by_threads[rows // _THREADS, _THREADS]
    by_warps = multiply_by_warps[fewer * _WARP // _THREADS, _THREADS]
    return [
        _case("SpMV f32, a thread a row, 2^16 x 0-32", by_threads, short, libraries),
        _case("SpMV f32, a warp a row, 2^13 x 64-384", by_warps, long, libraries),
    ]


def _arguments(rng: np.random.Generator, size: int, lengths: np.ndarray) -> list[np.ndarray]:
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(i32)
    columns = rng.integers(0, size, starts[-1]).astype(i32)
    values = rng.standard_normal(starts[-1]).astype(f32)
    return [starts, columns, values, rng.standard_normal(size).astype(f32), np.empty(size, f32)]


def _case(
    name: str, ours: object, arguments: list[np.ndarray], libraries: Mapping[str, CompiledC]
) -> Case:
    starts, columns, values, x, y = arguments
    products = values.astype(np.float64) * x[columns]
    rows = np.repeat(np.arange(y.size), np.diff(starts))
    rivals = {
        "prange": lambda: _multiply(*arguments),
        **rivals_in_c(libraries, "multiply", *arguments, y.size),
    }
    exact = np.bincount(rows, products, y.size)
    return Case(name, (y,), (exact,), 1e-5, lambda: ours(*arguments), rivals)
