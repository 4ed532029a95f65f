"""Threads that meet at ``i ^ step``, and tiles of what lies within the limits of an array."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("neighbours")
CASES = _list.cases


def _rows(columns):
    def make(rng):
        return rng.integers(-1000, 1000, (3, columns)), poisoned((3, columns), np.int64)

    return make


@kd.kernel
def bitonic_network(x, out):
    keys = kd.shared.array(128, np.int64)
    t = kd.threadIdx.x
    keys[t] = x[kd.blockIdx.x, t]
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
    out[kd.blockIdx.x, t] = keys[t]


@kd.kernel
def butterfly_sums(x, out):
    sums = kd.shared.array((2, 128), np.int64)
    t = kd.threadIdx.x
    sums[0, t] = x[kd.blockIdx.x, t]
    now = 0
    step = 1
    kd.syncthreads()
    while step < kd.blockDim.x:
        sign = 1 if t & step else -1
        sums[1 - now, t] = sums[now, t] + sign * sums[now, t ^ step]
        now = 1 - now
        step *= 2
        kd.syncthreads()
    out[kd.blockIdx.x, t] = sums[now, t]


for _threads in (2, 16, 128):
    for _name, _kernel in (("network", bitonic_network), ("sums", butterfly_sums)):
        _list.add(f"{_name}_{_threads}", _kernel, _rows(_threads), grid=(3,), block=(_threads,))


@kd.kernel
def clamped_tile(x, out):
    column, row = kd.grid(2)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    height, width = x.shape
    tile = kd.shared.array((12, 24), np.int64)
    for k in range(ty, 12, kd.blockDim.y):
        above = min(max(kd.blockIdx.y * 4 - 4 + k, 0), height - 1)
        for m in range(tx, 24, kd.blockDim.x):
            tile[k, m] = x[above, min(max(kd.blockIdx.x * 16 - 4 + m, 0), width - 1)]
    kd.syncthreads()
    if column < width and row < height:
        total = 0
        for k in range(9):
            total += (k + 1) * tile[ty + k, tx + 4] - tile[ty + 4, tx + k]
        out[row, column] = total


def _image(height, width):
    def make(rng):
        return rng.integers(-99, 99, (height, width)), poisoned((height, width), np.int64)

    return make


for _height, _width in ((1, 1), (8, 32), (9, 70)):
    _grid = (-(-_width // 16), -(-_height // 4))
    _name = f"clamped_tile_{_height}_{_width}"
    _list.add(_name, clamped_tile, _image(_height, _width), grid=_grid, block=(16, 4))
