"""Sums over arrays, rows and columns."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case

__all__ = ["cases"]

f32, i32 = np.float32, np.int32
_N = 1 << 26
_ROWS = 8192
_ALL = 0xFFFFFFFF


@kd.kernel
def strided_sum(x, out):
    i = kd.grid(1)
    step = kd.gridDim.x * kd.blockDim.x
    total = f32(0.0)
    while i < x.size:
        total += x[i]
        i += step
    for distance in (16, 8, 4, 2, 1):
        total += kd.shfl_down_sync(_ALL, total, distance)
    if kd.threadIdx.x % 32 == 0:
        kd.atomic.add(out, 0, total)


@kd.kernel
def dot(x, y, partial):
    warps = kd.shared.array(8, f32)
    t = kd.threadIdx.x
    total = f32(0.0)
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        total += x[i] * y[i]
    for distance in (16, 8, 4, 2, 1):
        total += kd.shfl_down_sync(_ALL, total, distance)
    if t % 32 == 0:
        warps[t // 32] = total
    kd.syncthreads()
    if t == 0:
        total = f32(0.0)
        for k in range(8):
            total += warps[k]
        partial[kd.blockIdx.x] = total


@kd.kernel
def largest_of_blocks(x, partial):
    values = kd.shared.array(256, f32)
    t = kd.threadIdx.x
    value = x[kd.grid(1)]
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        value = max(value, x[i])
    values[t] = value
    kd.syncthreads()
    step = kd.blockDim.x // 2
    while step > 0:
        if t < step:
            values[t] = max(values[t], values[t + step])
        kd.syncthreads()
        step //= 2
    if t == 0:
        partial[kd.blockIdx.x] = values[0]


@kd.kernel
def matrix_by_vector(a, x, y):
    row, lane = kd.grid(1) // 32, kd.threadIdx.x % 32
    if row < y.size:
        total = f32(0.0)
        for j in range(lane, x.size, 32):
            total += a[row, j] * x[j]
        for distance in (16, 8, 4, 2, 1):
            total += kd.shfl_down_sync(_ALL, total, distance)
        if lane == 0:
            y[row] = total


@kd.kernel
def vector_by_matrix(a, x, y):
    j = kd.grid(1)
    if j < y.size:
        total = f32(0.0)
        for i in range(x.size):
            total += a[i, j] * x[i]
        y[j] = total


def _numbers(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(0, 1, _N).astype(f32)


def _product(rng: np.random.Generator) -> Arguments:
    a = rng.uniform(0, 1, (_ROWS, _ROWS)).astype(f32)
    return a, rng.uniform(0, 1, _ROWS).astype(f32), np.empty(_ROWS, f32)


def cases() -> list[Case]:
    """Return the cases."""
    return [
        Case(
            strided_sum,
            "reductions",
            grid=1056,
            block=256,
            make=lambda rng: (_numbers(rng), np.zeros(1, f32)),
            passed=lambda given: (*given, i32(_N)),
            outputs=(1,),
            tolerance=1e-4,
            moved_bytes=4 * _N,
        ),
        Case(
            dot,
            "reductions",
            grid=1056,
            block=256,
            make=lambda rng: (_numbers(rng), _numbers(rng), np.empty(1056, f32)),
            passed=lambda given: (*given, i32(_N)),
            outputs=(2,),
            tolerance=1e-4,
            moved_bytes=8 * _N,
        ),
        Case(
            largest_of_blocks,
            "reductions",
            grid=1056,
            block=256,
            make=lambda rng: (_numbers(rng), np.empty(1056, f32)),
            passed=lambda given: (*given, i32(_N)),
            outputs=(1,),
            moved_bytes=4 * _N,
        ),
        Case(
            matrix_by_vector,
            "reductions",
            grid=_ROWS // 8,
            block=256,
            make=_product,
            passed=lambda given: (*given, i32(_ROWS), i32(_ROWS)),
            outputs=(2,),
            tolerance=1e-5,
            moved_bytes=4 * _ROWS * _ROWS,
        ),
        Case(
            vector_by_matrix,
            "reductions",
            grid=_ROWS // 64,
            block=64,
            make=_product,
            passed=lambda given: (*given, i32(_ROWS), i32(_ROWS)),
            outputs=(2,),
            tolerance=1e-5,
            moved_bytes=4 * _ROWS * _ROWS,
        ),
    ]
