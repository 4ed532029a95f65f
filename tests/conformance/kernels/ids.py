"""Coordinates and sizes: explicit launches of 1 to 3 dimensions, odd sizes, and ``forall``."""

from __future__ import annotations

import numpy as np

import kerneldsl as kd
from tests.support.arrays import poisoned
from tests.support.cases import CaseList

__all__ = ["CASES"]

_list = CaseList("ids")
CASES = _list.cases


@kd.kernel
def coordinates(out):
    tx, ty, tz = kd.threadIdx.x, kd.threadIdx.y, kd.threadIdx.z
    bx, by, bz = kd.blockIdx.x, kd.blockIdx.y, kd.blockIdx.z
    block = (bz * kd.gridDim.y + by) * kd.gridDim.x + bx
    threads = kd.blockDim.x * kd.blockDim.y * kd.blockDim.z
    i = block * threads + (tz * kd.blockDim.y + ty) * kd.blockDim.x + tx
    out[i, 0], out[i, 1], out[i, 2] = tx, ty, tz
    out[i, 3], out[i, 4], out[i, 5] = bx, by, bz
    out[i, 6], out[i, 7], out[i, 8] = kd.blockDim.x, kd.blockDim.y, kd.blockDim.z
    out[i, 9], out[i, 10], out[i, 11] = kd.gridDim.x, kd.gridDim.y, kd.gridDim.z
    out[i, 12] = kd.grid(1)
    x2, y2 = kd.grid(2)
    out[i, 13], out[i, 14] = x2, y2
    x3, y3, z3 = kd.grid(3)
    out[i, 15], out[i, 16], out[i, 17] = x3, y3, z3
    out[i, 18] = kd.gridsize(1)
    w2, h2 = kd.gridsize(2)
    out[i, 19], out[i, 20] = w2, h2
    w3, h3, d3 = kd.gridsize(3)
    out[i, 21], out[i, 22], out[i, 23] = w3, h3, d3
    out[i, 24] = kd.warpsize


@kd.kernel
def lanes(out):
    linear = (kd.threadIdx.z * kd.blockDim.y + kd.threadIdx.y) * kd.blockDim.x + kd.threadIdx.x
    block = (kd.blockIdx.z * kd.gridDim.y + kd.blockIdx.y) * kd.gridDim.x + kd.blockIdx.x
    out[block * kd.blockDim.x * kd.blockDim.y * kd.blockDim.z + linear] = kd.laneid


def _rows(count, columns):
    return lambda rng: (poisoned((count, columns) if columns > 1 else count, np.int64),)


for _grid, _block in (
    ((1,), (1,)),
    ((3,), (37,)),
    ((2, 3), (5, 7)),
    ((3, 1), (32, 2)),
    ((2, 3, 2), (3, 5, 2)),
    ((1, 1, 4), (1, 1, 9)),
    ((5, 1, 2), (1, 33, 1)),
):
    _count = int(np.prod(_grid) * np.prod(_block))
    _label = "x".join(map(str, _grid)) + "_of_" + "x".join(map(str, _block))
    _list.add(f"coordinates_{_label}", coordinates, _rows(_count, 25), grid=_grid, block=_block)
    _list.add(f"lanes_{_label}", lanes, _rows(_count, 1), grid=_grid, block=_block)


@kd.kernel
def guarded_matrix(out):
    # numba.cuda's convention: grid(2) is (x, y), and x runs fastest.
    x, y = kd.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        out[y, x] = y * 1000 + x


_list.add(
    "guarded_matrix",
    guarded_matrix,
    lambda rng: (poisoned((19, 45), np.int64),),
    grid=(2, 3),
    block=(32, 8),
)


@kd.kernel
def grid_stride(x, out):
    i = kd.grid(1)
    while i < x.size:
        out[i] = x[i] + 1
        i += kd.gridsize(1)


def _long(rng):
    return rng.integers(0, 99, 1001), poisoned(1001, np.int64)


_list.add("grid_stride", grid_stride, _long, grid=(3,), block=(37,))
_list.add("grid_stride_forall", grid_stride, _long, extent=(100,))


@kd.kernel
def grid_stride_range(x, out):
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        out[i] = x[i] * 2


_list.add("grid_stride_range", grid_stride_range, _long, grid=(3,), block=(37,))


@kd.kernel
def forall_1d(out):
    i = kd.grid(1)
    out[i] = i * 10 + kd.gridsize(1)


@kd.kernel
def forall_2d(out):
    i, j = kd.grid(2)
    h, w = kd.gridsize(2)
    out[i, j] = (i * 100 + j) * 1000 + h * 7 + w


@kd.kernel
def forall_3d(out):
    i, j, k = kd.grid(3)
    d, h, w = kd.gridsize(3)
    out[i, j, k] = (i * 10000 + j * 100 + k) * 1000 + d * 49 + h * 7 + w


@kd.kernel
def forall_counts_visits(visits):
    i, j = kd.grid(2)
    visits[i, j] += 1


@kd.kernel
def forall_by_thread_index(out):
    # A body that reads threadIdx keeps one element a thread, the first axis along x.
    i = kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x
    if i == kd.grid(1):
        out[i] = i


@kd.kernel
def forall_2d_by_thread_index(out):
    i = kd.blockIdx.x * kd.blockDim.x + kd.threadIdx.x
    j = kd.blockIdx.y * kd.blockDim.y + kd.threadIdx.y
    a, b = kd.grid(2)
    out[a, b] = i * 1000 + j


for _extent in ((1,), (31,), (1000,)):
    _list.add(
        f"forall_{_extent[0]}",
        forall_1d,
        lambda rng, e=_extent: (poisoned(e, np.int64),),
        extent=_extent,
    )
for _extent in ((1, 1), (1, 40), (40, 1), (33, 17)):
    _label = "x".join(map(str, _extent))
    _list.add(
        f"forall_{_label}",
        forall_2d,
        lambda rng, e=_extent: (poisoned(e, np.int64),),
        extent=_extent,
    )
    _list.add(
        f"forall_visits_{_label}",
        forall_counts_visits,
        lambda rng, e=_extent: (np.zeros(e, np.int64),),
        extent=_extent,
    )
for _extent in ((1, 1, 1), (2, 3, 5), (7, 1, 33)):
    _label = "x".join(map(str, _extent))
    _list.add(
        f"forall_{_label}",
        forall_3d,
        lambda rng, e=_extent: (poisoned(e, np.int64),),
        extent=_extent,
    )
for _extent in ((0,), (0, 5), (5, 0), (2, 0, 3)):
    _label = "x".join(map(str, _extent))
    _list.add(
        f"forall_empty_{_label}",
        {1: forall_1d, 2: forall_2d, 3: forall_3d}[len(_extent)],
        lambda rng, e=_extent: (poisoned([n + 1 for n in e], np.int64),),
        extent=_extent,
    )
_list.add(
    "forall_by_thread_index",
    forall_by_thread_index,
    lambda rng: (poisoned(333, np.int64),),
    extent=(333,),
)
_list.add(
    "forall_2d_by_thread_index",
    forall_2d_by_thread_index,
    lambda rng: (poisoned((33, 17), np.int64),),
    extent=(33, 17),
)


@kd.kernel(block=128)
def forall_block_kernel(x, out):
    # forall on a block kernel rounds the grid up; the kernel guards.
    s = kd.shared.array(128, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i] if i < x.size else 0
    kd.syncthreads()
    if i < x.size:
        out[i] = s[t] * 2 + s[0] - s[0]


def _doubled(x, out):
    return {1: x * 2}


_list.add("forall_block_kernel", forall_block_kernel, _long, extent=(1001,), expected=_doubled)
