"""Kernels that `explain.py` compares with a device's counters, each with its launch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import kerneldsl as kd

__all__ = ["CASES", "Case"]

#: Elements of most arrays: 16 MiB of float32.
N = 1 << 22
#: Rows and columns of most images.
SIDE = 2048


@dataclass(frozen=True)
class Case:
    """A launch. `make` returns the arguments; `is_affine` says that no index is data.

    `because` has the reasons of differences from the counters that are known.
    """

    name: str
    kernel: Any
    make: Callable[[], tuple[Any, ...]]
    block: int | tuple[int, ...]
    grid: int | tuple[int, ...]
    is_affine: bool = True
    because: Mapping[str, str] = field(default_factory=dict)


@kd.kernel
def copy(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


@kd.kernel
def shifted(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i + 1]


@kd.kernel
def strided(x, out, stride):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i * stride]


@kd.kernel
def strided_store(x, out, stride):
    i = kd.grid(1)
    if i < x.size:
        out[i * stride] = x[i]


@kd.kernel
def reversed_copy(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[out.size - 1 - i]


@kd.kernel
def broadcast(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[kd.blockIdx.x]


@kd.kernel
def grid_stride(x, out):
    for i in range(kd.grid(1), x.size, kd.gridsize(1)):
        out[i] = x[i] * np.float32(2)


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < x.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def polynomial(x, out):
    i = kd.grid(1)
    if i < x.size:
        v = x[i]
        total = np.float32(1)
        for _ in range(16):
            total = total * v + np.float32(0.5)
        out[i] = total


@kd.kernel
def image_copy(a, out):
    x, y = kd.grid(2)
    if x < a.shape[1] and y < a.shape[0]:
        out[y, x] = a[y, x]


@kd.kernel
def columns_first(a, out):
    x, y = kd.grid(2)
    if x < a.shape[0] and y < a.shape[1]:
        out[x, y] = a[x, y]


@kd.kernel
def naive_transpose(a, out):
    x, y = kd.grid(2)
    if x < a.shape[1] and y < a.shape[0]:
        out[x, y] = a[y, x]


@kd.kernel
def tile_transpose(a, out):
    tile = kd.shared.array((32, 32), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    row, column = kd.blockIdx.y * 32, kd.blockIdx.x * 32
    tile[ty, tx] = a[row + ty, column + tx]
    kd.syncthreads()
    out[column + ty, row + tx] = tile[tx, ty]


@kd.kernel
def padded_transpose(a, out):
    tile = kd.shared.array((32, 33), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    row, column = kd.blockIdx.y * 32, kd.blockIdx.x * 32
    tile[ty, tx] = a[row + ty, column + tx]
    kd.syncthreads()
    out[column + ty, row + tx] = tile[tx, ty]


@kd.kernel
def shared_stride_2(x, out):
    tile = kd.shared.array(512, np.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    tile[2 * t] = x[i]
    kd.syncthreads()
    out[i] = tile[2 * (255 - t)]


@kd.kernel
def shared_stride_8(x, out):
    tile = kd.shared.array(2048, np.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    tile[8 * t] = x[i]
    kd.syncthreads()
    out[i] = tile[8 * (255 - t)]


@kd.kernel
def shared_doubles(x, out):
    tile = kd.shared.array(256, np.float64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    tile[t] = x[i]
    kd.syncthreads()
    out[i] = tile[255 - t]


@kd.kernel
def shared_doubles_stride_2(x, out):
    tile = kd.shared.array(512, np.float64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    tile[2 * t] = x[i]
    kd.syncthreads()
    out[i] = tile[2 * (255 - t)]


@kd.kernel
def gather(index, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[index[i]]


@kd.kernel
def scatter(index, x, out):
    i = kd.grid(1)
    if i < x.size:
        out[index[i]] = x[i]


@kd.kernel
def odd_and_even(x, out):
    i = kd.grid(1)
    if i < x.size:
        if i % 2 == 0:
            out[i] = x[i] * np.float32(2)
        else:
            out[i] = x[i] + np.float32(1)


@kd.kernel
def triangle(x, out):
    i = kd.grid(1)
    total = np.float32(0)
    for k in range(i % 32):
        total += x[i] * np.float32(k)
    out[i] = total


@kd.kernel
def stencil_1d(x, out):
    i = kd.grid(1)
    if 0 < i < x.size - 1:
        out[i] = x[i - 1] + x[i] + x[i + 1]


@kd.kernel
def stencil_2d(a, out):
    x, y = kd.grid(2)
    if 0 < x < a.shape[1] - 1 and 0 < y < a.shape[0] - 1:
        around = a[y - 1, x] + a[y + 1, x] + a[y, x - 1] + a[y, x + 1]
        out[y, x] = around - np.float32(4) * a[y, x]


@kd.kernel
def stencil_3d(a, out):
    x, y, z = kd.grid(3)
    inside = 0 < x < a.shape[2] - 1 and 0 < y < a.shape[1] - 1 and 0 < z < a.shape[0] - 1
    if inside:
        total = a[z, y, x - 1] + a[z, y, x + 1] + a[z, y - 1, x] + a[z, y + 1, x]
        out[z, y, x] = total + a[z - 1, y, x] + a[z + 1, y, x]


@kd.kernel
def naive_matmul(a, b, c):
    x, y = kd.grid(2)
    if x < c.shape[1] and y < c.shape[0]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[y, k] * b[k, x]
        c[y, x] = total


@kd.kernel
def tiled_matmul(a, b, c):
    one = kd.shared.array((16, 16), np.float32)
    two = kd.shared.array((16, 16), np.float32)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    x, y = kd.grid(2)
    total = np.float32(0)
    for k in range(a.shape[1] // 16):
        one[ty, tx] = a[y, k * 16 + tx]
        two[ty, tx] = b[k * 16 + ty, x]
        kd.syncthreads()
        for j in range(16):
            total += one[ty, j] * two[j, tx]
        kd.syncthreads()
    c[y, x] = total


@kd.kernel
def interleaved_sums(x, out):
    s = kd.shared.array(256, np.float32)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    d = 1
    while d < 256:
        i = 2 * d * t
        if i < 256:
            s[i] += s[i + d]
        kd.syncthreads()
        d *= 2
    if t == 0:
        out[kd.blockIdx.x] = s[0]


@kd.kernel
def halving_sums(x, out):
    s = kd.shared.array(256, np.float32)
    t = kd.threadIdx.x
    s[t] = x[kd.grid(1)]
    kd.syncthreads()
    d = 128
    while d > 0:
        if t < d:
            s[t] += s[t + d]
        kd.syncthreads()
        d //= 2
    if t == 0:
        out[kd.blockIdx.x] = s[0]


@kd.kernel
def row_sums(a, out):
    y = kd.grid(1)
    if y < a.shape[0]:
        total = np.float32(0)
        for k in range(a.shape[1]):
            total += a[y, k]
        out[y] = total


@kd.kernel
def histogram(x, out):
    counts = kd.shared.array(256, np.int32)
    t = kd.threadIdx.x
    counts[t] = 0
    kd.syncthreads()
    kd.atomic.add(counts, x[kd.grid(1)], 1)
    kd.syncthreads()
    kd.atomic.add(out, t, counts[t])


def _random(shape: int | tuple[int, ...], dtype: str = "float32") -> Any:
    return np.random.default_rng(1).random(shape).astype(dtype)


def _pair(dtype: str = "float32", count: int = N, extra: int = 0) -> Callable[[], tuple[Any, ...]]:
    return lambda: (np.ones(count + extra, dtype), np.zeros(count, dtype))


def _images(rows: int = SIDE, columns: int = SIDE) -> tuple[Any, ...]:
    return _random((rows, columns)), np.zeros((rows, columns), np.float32)


def _strided(stride: int, count: int = N // 4) -> Callable[[], tuple[Any, ...]]:
    return lambda: (np.ones(count * stride, np.float32), np.zeros(count, np.float32), stride)


def _gathered(spread: str) -> tuple[Any, ...]:
    random = np.random.default_rng(2)
    index = random.permutation(N) if spread == "anywhere" else np.arange(N)
    if spread == "near":
        index = np.sort(random.integers(0, N, N))
    return index.astype(np.int32), np.ones(N, np.float32), np.zeros(N, np.float32)


def _matrices(n: int) -> tuple[Any, ...]:
    return _random((n, n)), _random((n, n)), np.zeros((n, n), np.float32)


def _blocks(count: int, threads: int = 256) -> int:
    return -(-count // threads)


_IMAGE_GRID = (math.ceil(SIDE / 32), math.ceil(SIDE / 8))
_TILES = (SIDE // 32, SIDE // 32)
_OF_PARTS = {
    "DRAM read": "the L2 reads the rest of sectors that it gives up before they are written wholly"
}
_OF_VECTORS = {"wavefronts, loads": "the compiler merges loads of neighbours into vectors"}
CASES: tuple[Case, ...] = (
    Case("copy float32", copy, _pair(), 256, _blocks(N)),
    Case("copy float64", copy, _pair("float64", N // 2), 256, _blocks(N // 2)),
    Case("copy int8", copy, _pair("int8"), 256, _blocks(N)),
    Case("copy, blocks of 100", copy, _pair(count=1_000_003), 100, _blocks(1_000_003, 100)),
    Case("shifted by one", shifted, _pair(extra=1), 256, _blocks(N)),
    Case("stride 2", strided, _strided(2), 256, _blocks(N // 4)),
    Case("stride 3", strided, _strided(3), 256, _blocks(N // 4)),
    Case("stride 8", strided, _strided(8), 256, _blocks(N // 4)),
    Case("stride 33", strided, _strided(33, N // 16), 256, _blocks(N // 16)),
    Case(
        "stride 5, stores",
        strided_store,
        lambda: (np.ones(N // 4, np.float32), np.zeros(5 * (N // 4), np.float32), 5),
        256,
        _blocks(N // 4),
        because=_OF_PARTS,
    ),
    Case("reversed", reversed_copy, _pair(), 256, _blocks(N)),
    Case("broadcast", broadcast, _pair(), 256, _blocks(N)),
    Case("grid-stride loop", grid_stride, _pair(), 256, 528),
    Case(
        "axpy",
        axpy,
        lambda: (np.float32(2), np.ones(N, "f4"), np.ones(N, "f4"), np.zeros(N, "f4")),
        256,
        _blocks(N),
    ),
    Case(
        "polynomial",
        polynomial,
        _pair(),
        256,
        _blocks(N),
        because={"flops": "the compiler does not multiply the first coefficient's 0"},
    ),
    Case("image copy", image_copy, _images, (32, 8), _IMAGE_GRID),
    Case("columns first", columns_first, _images, (32, 8), _IMAGE_GRID),
    Case("odd pitch", image_copy, lambda: _images(1999, 2001), (32, 8), (63, 250)),
    Case("naive transpose", naive_transpose, _images, (32, 8), _IMAGE_GRID),
    Case("tile transpose", tile_transpose, _images, (32, 32), _TILES),
    Case("padded transpose", padded_transpose, _images, (32, 32), _TILES),
    Case("shared stride 2", shared_stride_2, _pair(), 256, N // 256),
    Case("shared stride 8", shared_stride_8, _pair(), 256, N // 256),
    Case("shared float64", shared_doubles, _pair("float64", N // 2), 256, N // 512),
    Case("shared float64, 2", shared_doubles_stride_2, _pair("float64", N // 2), 256, N // 512),
    Case("gather, permuted", gather, lambda: _gathered("anywhere"), 256, _blocks(N), False),
    Case("gather, sorted", gather, lambda: _gathered("near"), 256, _blocks(N), False),
    Case(
        "scatter, permuted",
        scatter,
        lambda: _gathered("anywhere"),
        256,
        _blocks(N),
        is_affine=False,
        because=_OF_PARTS,
    ),
    Case("odd and even", odd_and_even, _pair(), 256, _blocks(N)),
    Case(
        "triangle",
        triangle,
        _pair(),
        256,
        N // 256,
        because={"sectors/load": "the compiler loads before the loop what the loop loads again"},
    ),
    Case("stencil 1d", stencil_1d, _pair(), 256, _blocks(N)),
    Case("stencil 2d", stencil_2d, _images, (32, 8), _IMAGE_GRID),
    Case(
        "stencil 3d",
        stencil_3d,
        lambda: (_random((160, 160, 160)), np.zeros((160, 160, 160), np.float32)),
        (32, 4, 2),
        (5, 40, 80),
    ),
    Case("naive matmul", naive_matmul, lambda: _matrices(512), (32, 8), (16, 64)),
    Case(
        "tiled matmul",
        tiled_matmul,
        lambda: _matrices(512),
        (16, 16),
        (32, 32),
        because=_OF_VECTORS,
    ),
    Case(
        "interleaved sums",
        interleaved_sums,
        lambda: (np.ones(N, np.float32), np.zeros(N // 256, np.float32)),
        256,
        N // 256,
        because=_OF_VECTORS,
    ),
    Case(
        "halving sums",
        halving_sums,
        lambda: (np.ones(N, np.float32), np.zeros(N // 256, np.float32)),
        256,
        N // 256,
    ),
    Case(
        "row sums",
        row_sums,
        lambda: (_random((4096, 1024)), np.zeros(4096, np.float32)),
        128,
        32,
    ),
    Case(
        "histogram",
        histogram,
        lambda: (
            np.random.default_rng(3).integers(0, 256, N).astype(np.uint8),
            np.zeros(256, np.int32),
        ),
        256,
        N // 256,
        False,
    ),
)
