"""What the CPU target writes for kernels that its passes rewrite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd

Check = Callable[[str, str], None]
f32, i32 = np.float32, np.int32
FULL = 0xFFFFFFFF


def totals(x, sums, most):
    i, t = kd.grid(1), kd.threadIdx.x
    part = kd.shared.array(16, f32)
    part[t] = x[i]
    kd.syncthreads()
    if t < 8:
        kd.atomic.add(sums, (t, 0), part[t] + part[t + 8])
        kd.atomic.max(most, t, part[t])


@kd.kernel
def rows_by_warps(starts, columns, values, x, y):
    row = kd.grid(1) // kd.warpsize
    lane = kd.laneid
    if row < y.size:
        total = np.float32(0.0)
        for k in range(starts[row] + lane, starts[row + 1], kd.warpsize):
            total += values[k] * x[columns[k]]
        step = kd.warpsize // 2
        while step > 0:
            total += kd.shfl_down_sync(FULL, total, step)
            step //= 2
        if lane == 0:
            y[row] = total


@kd.kernel
def warps_of_a_plane(x, out):
    t = kd.threadIdx.x
    last = kd.shfl_sync(FULL, x[kd.threadIdx.y, t], (t & 31) ^ 31)
    if kd.any_sync(FULL, last > t % 64):
        out[kd.threadIdx.y, t >> 5] = last


@kd.kernel
def waits_for_a_warp(flags, out):
    t = kd.threadIdx.x
    seen = 0
    while seen == 0:
        seen = kd.shfl_sync(FULL, kd.atomic.add(flags, t // 32, 0), 0)
    out[t] = seen


@kd.kernel
def scan(x, out):
    t = kd.threadIdx.x
    sums = kd.shared.array(128, np.int32)
    sums[t] = x[t]
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
    out[t] = sums[t]
    if t == 127:
        out[128] = sums[127]


@kd.kernel
def shift_by_one(x, out):
    t = kd.threadIdx.x
    cells = kd.shared.array(129, np.float32)
    cells[t] = x[t]
    kd.syncthreads()
    for _ in range(3):
        value = cells[t + 1]
        kd.syncthreads()
        cells[t] = value
        kd.syncthreads()
    out[t] = cells[t]


@kd.kernel
def reverse(x, out):
    t = kd.threadIdx.x
    cells = kd.shared.array(128, np.float32)
    cells[t] = x[t]
    kd.syncthreads()
    value = cells[127 - t]
    kd.syncthreads()
    cells[t] = value
    kd.syncthreads()
    out[t] = cells[t]


CASES: list[tuple[Any, str, int | tuple[int, ...]]] = [
    (
        rows_by_warps,
        "int32[::1], int32[::1], float32[::1], float32[::1], float32[::1]",
        64,
    ),
    (warps_of_a_plane, "int64[:, ::1], int64[:, ::1]", (64, 2)),
    (waits_for_a_warp, "int32[::1], int32[::1]", 64),
    (scan, "int32[::1], int32[::1]", 128),
    (shift_by_one, "float32[::1], float32[::1]", 128),
    (reverse, "float32[::1], float32[::1]", 128),
]


def source_of(function, *arguments, block: int | None = None) -> str:
    with kd.use("cpu"):
        return kd.kernel(function).cpu_source(*arguments, block=block)


def test_gathered_atomics(check_golden: Check) -> None:
    x = np.zeros(16, f32)
    found = source_of(totals, x, np.zeros((8, 1), f32), np.zeros(8, f32), block=16)
    check_golden("cpu_source.totals", found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_source(case: tuple[Any, str, Any], check_golden: Callable[[str, str], None]) -> None:
    kernel, signature, block = case
    with kd.use("cpu"):
        text = kernel.cpu_source(signature, block=block)
    check_golden(f"cpu.{kernel.__name__}", text)
