"""Blocks that work together in shared memory, and warps that exchange values."""

from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd
from cuda_c.case import Arguments, Case

__all__ = ["cases"]

f32, i32 = np.float32, np.int32
_POINTS = 1024
_ROWS = 32
_ALL = 0xFFFFFFFF


@kd.kernel
def fourier_transform(re, im):
    t, row = kd.threadIdx.x, kd.blockIdx.x
    x = kd.shared.array(_POINTS, f32)
    y = kd.shared.array(_POINTS, f32)
    for k in range(t, _POINTS, kd.blockDim.x):
        reverse = kd.brev(np.uint32(k)) >> np.uint32(22)
        x[reverse] = re[row, k]
        y[reverse] = im[row, k]
    kd.syncthreads()
    half = 1
    while half < _POINTS:
        place = t % half
        first = (t // half) * 2 * half + place
        second = first + half
        angle = f32(-math.pi) * f32(place) / f32(half)
        c, s = math.cos(angle), math.sin(angle)
        u, v = x[second] * c - y[second] * s, x[second] * s + y[second] * c
        x[second], y[second] = x[first] - u, y[first] - v
        x[first], y[first] = x[first] + u, y[first] + v
        kd.syncthreads()
        half *= 2
    for k in range(t, _POINTS, kd.blockDim.x):
        re[row, k] = x[k]
        im[row, k] = y[k]


@kd.kernel
def cheapest_paths(wall, costs, out):
    t = kd.threadIdx.x
    column = kd.blockIdx.x * (256 - 2 * _ROWS) + t - _ROWS
    width = costs.size
    before = kd.shared.array(256, i32)
    cost = costs[min(max(column, 0), width - 1)]
    for row in range(_ROWS):
        before[t] = cost
        kd.syncthreads()
        least = min(before[max(t - 1, 0)], before[t], before[min(t + 1, 255)])
        if 0 <= column < width:
            cost = least + wall[row, column]
        kd.syncthreads()
    if _ROWS <= t < 256 - _ROWS and column < width:
        out[column] = cost


@kd.kernel
def scan_by_warps(x, out):
    warps = kd.shared.array(32, i32)
    i, t = kd.grid(1), kd.threadIdx.x
    lane, warp = t % 32, t // 32
    value = x[i]
    distance = 1
    while distance < 32:
        other = kd.shfl_up_sync(_ALL, value, distance)
        if lane >= distance:
            value += other
        distance *= 2
    if lane == 31:
        warps[warp] = value
    kd.syncthreads()
    if warp == 0:
        total = warps[lane]
        distance = 1
        while distance < 32:
            other = kd.shfl_up_sync(_ALL, total, distance)
            if lane >= distance:
                total += other
            distance *= 2
        warps[lane] = total
    kd.syncthreads()
    if warp > 0:
        value += warps[warp - 1]
    out[i] = value


@kd.kernel
def keep_positive(x, out, counts):
    total = kd.shared.array(1, i32)
    i, t = kd.grid(1), kd.threadIdx.x
    lane = t % 32
    if t == 0:
        total[0] = 0
    kd.syncthreads()
    is_kept = x[i] > 0
    kept = kd.ballot_sync(_ALL, is_kept)
    start = 0
    if lane == 0:
        start = kd.atomic.add(total, 0, kd.popc(kept))
    start = kd.shfl_sync(_ALL, start, 0)
    if is_kept:
        place = start + kd.popc(kept & ((1 << lane) - 1))
        out[kd.blockIdx.x * kd.blockDim.x + place] = x[i]
    kd.syncthreads()
    if t == 0:
        counts[kd.blockIdx.x] = total[0]


def cases() -> list[Case]:
    """Return the cases."""
    rows, n = 16384, 1 << 24

    def signals(rng: np.random.Generator) -> Arguments:
        return tuple(rng.standard_normal((2, rows, _POINTS)).astype(f32))

    def walls(rng: np.random.Generator) -> Arguments:
        width = 192 * 8192
        wall = rng.integers(0, 10, (_ROWS, width)).astype(i32)
        return wall, rng.integers(0, 10, width).astype(i32), np.empty(width, i32)

    return [
        Case(
            fourier_transform,
            "blocks",
            grid=rows,
            block=_POINTS // 2,
            make=signals,
            passed=lambda given: given,
            outputs=(0, 1),
            tolerance=1e-5,
            moved_bytes=16 * rows * _POINTS,
        ),
        Case(
            cheapest_paths,
            "blocks",
            grid=8192,
            block=256,
            make=walls,
            passed=lambda given: (*given, i32(192 * 8192)),
            outputs=(2,),
        ),
        Case(
            scan_by_warps,
            "blocks",
            grid=n // 1024,
            block=1024,
            make=lambda rng: (rng.integers(0, 100, n).astype(i32), np.empty(n, i32)),
            passed=lambda given: given,
            outputs=(1,),
            moved_bytes=8 * n,
        ),
        Case(
            keep_positive,
            "blocks",
            grid=n // 256,
            block=256,
            make=lambda rng: (
                rng.standard_normal(n).astype(f32),
                np.zeros(n, f32),
                np.empty(n // 256, i32),
            ),
            passed=lambda given: given,
            outputs=(2,),
            moved_bytes=6 * n,
        ),
    ]
