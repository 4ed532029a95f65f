"""Products and transposes, with and without shared memory."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case

__all__ = ["cases"]

f32, i32 = np.float32, np.int32
_TILE = 32


@kd.kernel
def transpose(a, out):
    tile = kd.shared.array((_TILE, _TILE + 1), f32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    x, y = kd.blockIdx.x * _TILE + tx, kd.blockIdx.y * _TILE + ty
    for k in range(0, _TILE, 8):
        tile[ty + k, tx] = a[y + k, x]
    kd.syncthreads()
    x, y = kd.blockIdx.y * _TILE + tx, kd.blockIdx.x * _TILE + ty
    for k in range(0, _TILE, 8):
        out[y + k, x] = tile[tx, ty + k]


@kd.kernel
def product_f64(a, b, c):
    column, row = kd.grid(2)
    if row < c.shape[0] and column < c.shape[1]:
        total = 0.0
        for k in range(a.shape[1]):
            total += a[row, k] * b[k, column]
        c[row, column] = total


@kd.kernel
def rank_updates(a, b, c, alpha, beta):
    j, i = kd.grid(2)
    n, m = a.shape
    if i < n and j < n:
        total = f32(0.0)
        for k in range(m):
            total += a[j, k] * alpha * b[i, k] + b[j, k] * alpha * a[i, k]
        c[i, j] = c[i, j] * beta + total


@kd.kernel
def covariances(data, mean, out):
    j, i = kd.grid(2)
    rows, columns = data.shape
    if i < columns and j < columns and i <= j:
        total = f32(0.0)
        for k in range(rows):
            total += (data[k, i] - mean[i]) * (data[k, j] - mean[j])
        total /= f32(rows - 1)
        out[i, j] = total
        out[j, i] = total


@kd.kernel
def swap_axes(a, out):
    x, y, z = kd.grid(3)
    if x < a.shape[2] and y < a.shape[1] and z < a.shape[0]:
        out[y, z, x] = a[z, y, x]


@kd.kernel
def register_tiles(a, b, c):
    left = kd.shared.array((64, 16), f32)
    right = kd.shared.array((16, 64), f32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    t = ty * 16 + tx
    row, column = kd.blockIdx.y * 64, kd.blockIdx.x * 64
    sums = kd.local.array((4, 4), f32)
    for i in range(4):
        for j in range(4):
            sums[i, j] = f32(0.0)
    for start in range(0, a.shape[1], 16):
        for k in range(4):
            left[t // 16 + 16 * k, t % 16] = a[row + t // 16 + 16 * k, start + t % 16]
            right[t // 64 + 4 * k, t % 64] = b[start + t // 64 + 4 * k, column + t % 64]
        kd.syncthreads()
        for k in range(16):
            for i in range(4):
                for j in range(4):
                    sums[i, j] += left[ty * 4 + i, k] * right[k, tx * 4 + j]
        kd.syncthreads()
    for i in range(4):
        for j in range(4):
            c[row + ty * 4 + i, column + tx * 4 + j] = sums[i, j]


def cases() -> list[Case]:
    """Return the cases."""

    def square(side: int, dtype: type, count: int):
        def make(rng: np.random.Generator) -> Arguments:
            made = rng.uniform(-1, 1, (count, side, side)).astype(dtype)
            return *made, np.empty((side, side), dtype)

        return make

    def updates(rng: np.random.Generator) -> Arguments:
        a, b, c = rng.uniform(-1, 1, (3, 1024, 1024)).astype(f32)
        return a, b, c, f32(1.5), f32(0.5)

    def samples(rng: np.random.Generator) -> Arguments:
        data = rng.uniform(-1, 1, (1024, 1024)).astype(f32)
        return data, data.mean(axis=0), np.empty((1024, 1024), f32)

    def volume(rng: np.random.Generator) -> Arguments:
        a = rng.standard_normal((256, 384, 512)).astype(f32)
        return a, np.empty((384, 256, 512), f32)

    return [
        Case(
            transpose,
            "matrices",
            grid=(8192 // 32, 8192 // 32),
            block=(32, 8),
            make=square(8192, f32, 1),
            passed=lambda given: (*given, i32(8192)),
            outputs=(1,),
            moved_bytes=8 * 8192 * 8192,
        ),
        Case(
            product_f64,
            "matrices",
            grid=(1024 // 16, 1024 // 16),
            block=(16, 16),
            make=square(1024, np.float64, 2),
            passed=lambda given: (*given, i32(1024)),
            outputs=(2,),
            tolerance=1e-13,
        ),
        Case(
            rank_updates,
            "matrices",
            grid=(1024 // 32, 1024 // 8),
            block=(32, 8),
            make=updates,
            passed=lambda given: (*given, i32(1024), i32(1024)),
            outputs=(2,),
            tolerance=1e-5,
        ),
        Case(
            covariances,
            "matrices",
            grid=(1024 // 32, 1024 // 8),
            block=(32, 8),
            make=samples,
            passed=lambda given: (*given, i32(1024), i32(1024)),
            outputs=(2,),
            tolerance=1e-5,
        ),
        Case(
            swap_axes,
            "matrices",
            grid=(512 // 128, 384 // 2, 256),
            block=(128, 2),
            make=volume,
            passed=lambda given: (*given, i32(256), i32(384), i32(512)),
            outputs=(1,),
            moved_bytes=8 * 256 * 384 * 512,
        ),
        Case(
            register_tiles,
            "matrices",
            grid=(2048 // 64, 2048 // 64),
            block=(16, 16),
            make=square(2048, f32, 2),
            passed=lambda given: (*given, i32(2048)),
            outputs=(2,),
            tolerance=1e-5,
        ),
    ]
