"""Kernels of ``cpu.py``, and the same work as an experienced Numba user writes it.

Neither side uses fastmath.
"""

from __future__ import annotations

import numba
import numpy as np
from numba import prange

import kerneldsl as kd

__all__ = [
    "BLOCK",
    "TILE",
    "axpy",
    "axpy_prange",
    "copy_prange",
    "jacobi",
    "jacobi_block",
    "jacobi_prange",
    "matmul_prange",
    "matmul_tiled",
    "nbody",
    "nbody_prange",
    "read_prange",
    "sum_prange",
    "tree_reduction",
]

BLOCK = 256
TILE = 16


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@numba.njit(parallel=True)
def axpy_prange(a, x, y, out):
    for i in prange(out.size):
        out[i] = a * x[i] + y[i]


@kd.kernel
def jacobi(old, new):
    i, j = kd.grid(2)
    if 0 < i < old.shape[0] - 1 and 0 < j < old.shape[1] - 1:
        new[i, j] = np.float32(0.25) * (
            old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
        )


@kd.kernel
def jacobi_block(old, new):
    # An explicit launch: x runs fastest and is the column.
    j, i = kd.grid(2)
    if 0 < i < old.shape[0] - 1 and 0 < j < old.shape[1] - 1:
        new[i, j] = np.float32(0.25) * (
            old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
        )


@numba.njit(parallel=True)
def jacobi_prange(old, new):
    for i in prange(1, old.shape[0] - 1):
        for j in range(1, old.shape[1] - 1):
            new[i, j] = np.float32(0.25) * (
                old[i - 1, j] + old[i + 1, j] + old[i, j - 1] + old[i, j + 1]
            )


@kd.kernel
def nbody(x, y, z, m, softening, ax, ay, az):
    i = kd.grid(1)
    if i < x.size:
        sx = np.float32(0)
        sy = np.float32(0)
        sz = np.float32(0)
        for j in range(x.size):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            d = dx * dx + dy * dy + dz * dz + softening
            w = m[j] / (d * np.sqrt(d))
            sx += dx * w
            sy += dy * w
            sz += dz * w
        ax[i] = sx
        ay[i] = sy
        az[i] = sz


@numba.njit(parallel=True)
def nbody_prange(x, y, z, m, softening, ax, ay, az):
    for i in prange(x.size):
        sx = np.float32(0)
        sy = np.float32(0)
        sz = np.float32(0)
        for j in range(x.size):
            dx = x[j] - x[i]
            dy = y[j] - y[i]
            dz = z[j] - z[i]
            d = dx * dx + dy * dy + dz * dz + softening
            w = m[j] / (d * np.sqrt(d))
            sx += dx * w
            sy += dy * w
            sz += dz * w
        ax[i] = sx
        ay[i] = sy
        az[i] = sz


@kd.kernel
def tree_reduction(x, partial):
    s = kd.shared.array(BLOCK, np.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i] if i < x.size else np.float32(0)
    kd.syncthreads()
    stride = BLOCK // 2
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]
        kd.syncthreads()
        stride //= 2
    if t == 0:
        partial[kd.blockIdx.x] = s[0]


@numba.njit(parallel=True)
def sum_prange(x):
    total = np.float32(0)
    for i in prange(x.size):
        total += x[i]
    return total


@kd.kernel
def matmul_tiled(a, b, c):
    left = kd.shared.array((TILE, TILE), np.float32)
    right = kd.shared.array((TILE, TILE), np.float32)
    tx = kd.threadIdx.x
    ty = kd.threadIdx.y
    col, row = kd.grid(2)
    total = np.float32(0)
    for tile in range((a.shape[1] + TILE - 1) // TILE):
        k = tile * TILE
        left[ty, tx] = np.float32(0)
        right[ty, tx] = np.float32(0)
        if row < a.shape[0] and k + tx < a.shape[1]:
            left[ty, tx] = a[row, k + tx]
        if k + ty < b.shape[0] and col < b.shape[1]:
            right[ty, tx] = b[k + ty, col]
        kd.syncthreads()
        for i in range(TILE):
            total += left[ty, i] * right[i, tx]
        kd.syncthreads()
    if row < c.shape[0] and col < c.shape[1]:
        c[row, col] = total


@numba.njit(parallel=True)
def matmul_prange(a, b, c):
    for i in prange(a.shape[0]):
        for j in range(b.shape[1]):
            c[i, j] = np.float32(0)
        for k in range(a.shape[1]):
            aik = a[i, k]
            for j in range(b.shape[1]):
                c[i, j] += aik * b[k, j]


@numba.njit(parallel=True)
def copy_prange(x, out):
    for i in prange(x.size):
        out[i] = x[i]


@numba.njit(parallel=True)
def read_prange(x):
    # Integer additions may be reordered, so this runs at the speed of memory.
    total = 0
    for i in prange(x.size):
        total += x[i]
    return total
