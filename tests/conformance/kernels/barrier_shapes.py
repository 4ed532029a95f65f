"""Barriers in blocks of two and three dimensions, of one thread, and of 1024."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned, random_array
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("barrier_shapes")
CASES = _list.cases


def _ints(size):
    return lambda rng: (rng.integers(-1000, 1000, size), poisoned(size, np.int64))


@kd.kernel
def two_dimensional_block(x, out):
    s = kd.shared.array((8, 9), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    gx, gy = kd.grid(2)
    inside = gx < x.shape[1] and gy < x.shape[0]
    s[ty, tx] = x[gy, gx] if inside else np.float32(0)
    kd.syncthreads()
    ox = kd.blockIdx.y * kd.blockDim.y + tx
    oy = kd.blockIdx.x * kd.blockDim.x + ty
    if ox < out.shape[1] and oy < out.shape[0]:
        out[oy, ox] = s[tx, ty]


def _transpose_arguments(rng):
    return random_array(rng, (29, 21), np.float32), poisoned((21, 29), np.float32)


_list.add(
    "two_dimensional_block",
    two_dimensional_block,
    _transpose_arguments,
    grid=(3, 4),
    block=(8, 8),
)


@kd.kernel
def three_dimensional_block(x, out):
    s = kd.shared.array((2, 3, 5), np.int64)
    tx, ty, tz = kd.threadIdx.x, kd.threadIdx.y, kd.threadIdx.z
    i, j, k = kd.grid(3)
    s[tz, ty, tx] = x[k, j, i]
    kd.syncthreads()
    out[k, j, i] = s[1 - tz, 2 - ty, 4 - tx]


def _cube_arguments(rng):
    return random_array(rng, (4, 9, 10), np.int64), poisoned((4, 9, 10), np.int64)


_list.add(
    "three_dimensional_block",
    three_dimensional_block,
    _cube_arguments,
    grid=(2, 3, 2),
    block=(5, 3, 2),
)


@kd.kernel
def tiled_matmul(a, b, out):
    left = kd.shared.array((8, 8), np.float32)
    right = kd.shared.array((8, 8), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    col, row = kd.grid(2)
    total = np.float32(0)
    for tile in range((a.shape[1] + 7) // 8):
        k = tile * 8
        left[ty, tx] = np.float32(0)
        right[ty, tx] = np.float32(0)
        if row < a.shape[0] and k + tx < a.shape[1]:
            left[ty, tx] = a[row, k + tx]
        if k + ty < b.shape[0] and col < b.shape[1]:
            right[ty, tx] = b[k + ty, col]
        kd.syncthreads()
        for i in range(8):
            total += left[ty, i] * right[i, tx]
        kd.syncthreads()
    if row < out.shape[0] and col < out.shape[1]:
        out[row, col] = total


def _matmul_arguments(rng):
    # Small integers, so that any order of the additions gives the same sum.
    a = rng.integers(-8, 8, (19, 27)).astype(np.float32)
    b = rng.integers(-8, 8, (27, 13)).astype(np.float32)
    return a, b, poisoned((19, 13), np.float32)


_list.add("tiled_matmul", tiled_matmul, _matmul_arguments, grid=(2, 3), block=(8, 8))


@kd.kernel
def one_thread(x, out):
    s = kd.shared.array(4, np.int64)
    s[0] = x[kd.blockIdx.x]
    kd.syncthreads()
    s[1] = s[0] * 2
    kd.syncthreads()
    out[kd.blockIdx.x] = s[1]


_list.add("one_thread", one_thread, _ints(5), grid=(5,), block=(1,))


@kd.kernel
def full_block(x, out):
    s = kd.shared.array(1024, np.int64)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    out[kd.grid(1)] = s[1023 - t]


def _reverse_blocks(x, out):
    return {1: x.reshape(2, 1024)[:, ::-1].ravel()}


_list.add(
    "full_block",
    full_block,
    _ints(2048),
    grid=(2,),
    block=(1024,),
    expected=_reverse_blocks,
)
