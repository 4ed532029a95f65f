"""Kernels that run one warp after the other, and shuffles of whole warps."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.operations import Region
from kerneldsl.ir.printer import print_region
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from targets.cpu.regions.read import read_kernel

_ALL = 0xFFFFFFFF


@kd.kernel
def shuffled(x, k, out):
    i = kd.grid(1)
    value = x[i]
    warp = i // 32
    if warp % 3 != 1:
        out[i, 0] = kd.shfl_sync(_ALL, value, k)
        out[i, 1] = kd.shfl_up_sync(_ALL, value, k)
        out[i, 2] = kd.shfl_down_sync(_ALL, value, k)
        out[i, 3] = kd.shfl_xor_sync(_ALL, value, k)
        out[i, 4] = kd.shfl_down_sync(_ALL, kd.int8(kd.laneid), k)
        out[i, 5] = (i % 64) + 1000 * (kd.threadIdx.x & 63) + kd.ballot_sync(_ALL, value > 3)


@kd.kernel
def shuffled_in_blocks(x, k, out):
    i = kd.grid(1)
    value = x[i]
    kd.syncthreads()
    out[i, 0] = kd.shfl_sync(_ALL, value, k)
    out[i, 1] = kd.shfl_up_sync(_ALL, value, k)
    out[i, 2] = kd.shfl_down_sync(_ALL, value, k)
    out[i, 3] = kd.shfl_xor_sync(_ALL, value, k)


def _shuffled(x: np.ndarray, k: int) -> list[np.ndarray]:
    lane = np.arange(x.size) % 32
    start, step = np.arange(x.size) - lane, k % 32
    return [
        x[start + step],
        np.where(lane >= step, np.roll(x, step), x),
        np.where(lane + step < 32, np.roll(x, -step), x),
        x[start + (lane ^ step)],
        np.where(lane + step < 32, lane + step, lane),
    ]


@pytest.mark.parametrize("k", [0, 1, 5, 31, 33])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_shuffles_of_whole_warps(k: int, dtype: type) -> None:
    x = (np.arange(384) * 7 % 11).astype(dtype)
    out = np.zeros((384, 6))
    shuffled[3, 128](x, k, out)
    runs = np.arange(384) // 32 % 3 != 1
    for number, expected in enumerate(_shuffled(x, k)):
        np.testing.assert_array_equal(out[:, number], np.where(runs, expected, 0))
    bits = (x.reshape(-1, 32) > 3) @ (1 << np.arange(32))
    signed = bits.astype(np.uint32).astype(np.int32).repeat(32)
    place = np.arange(384) % 64
    expected = place + 1000 * place + signed
    np.testing.assert_array_equal(out[:, 5], np.where(runs, expected, 0))
    shuffled_in_blocks[3, 128](x, k, out)
    for number, expected in enumerate(_shuffled(x, k)[:4]):
        np.testing.assert_array_equal(out[:, number], expected)


@kd.kernel
def sum_of_warps(x, out):
    place = kd.threadIdx.x + kd.blockDim.x * kd.threadIdx.y
    i = kd.blockIdx.x * 192 + place
    total = x[i]
    step = 16
    while step > 0:
        total += kd.shfl_down_sync(_ALL, total, step)
        step //= 2
    if kd.laneid == 0:
        out[i // 32] = total + 1000 * (place // 32) + 100000 * kd.threadIdx.y


def test_warps_of_a_block_of_two_axes() -> None:
    x = np.arange(384)
    out = np.zeros(12, np.int64)
    sum_of_warps[2, (64, 3)](x, out)
    number = np.arange(12) % 6
    expected = x.reshape(12, 32).sum(1) + 1000 * number + 100000 * (number // 2)
    np.testing.assert_array_equal(out, expected)


def test_what_a_warp_shares_runs_once() -> None:
    region = _read(sum_of_warps, "int64[::1], int64[::1]", (64, 3, 1))
    (warps,) = (each for each in region.operations if each.name == "warps")
    assert "floordiv" not in print_region(warps.regions[0].operations[-2].regions[0])


@kd.kernel
def half_masks(x, out):
    i = kd.grid(1)
    lane = kd.laneid
    mask = 0xFFFF if lane < 16 else 0xFFFF0000
    votes = kd.ballot_sync(mask, x[i] > 3)
    if votes != 0:
        kd.syncwarp()
        out[i] = 1


def test_lanes_that_name_different_masks_have_different_votes() -> None:
    x = np.where(np.arange(64) // 16 % 3 == 1, 1, 9)
    out = np.zeros(64, np.int64)
    half_masks[1, 64](x, out)
    np.testing.assert_array_equal(out, x > 3)


@kd.kernel
def sums_of_rows(starts, values, out):
    row = kd.grid(1) // kd.warpsize
    if row < out.size:
        total = 0
        for k in range(starts[row] + kd.laneid, starts[row + 1], kd.warpsize):
            total += values[k]
        step = 16
        while step > 0:
            total += kd.shfl_down_sync(_ALL, total, step)
            step //= 2
        if kd.laneid == 0:
            out[row] = total


def _read(kernel: Any, signature: str, block: tuple[int, int, int]) -> Region:
    with global_compiler_lock:
        asked = kernel._asked_for((signature,), None, block, None, "cpu", None)
        return read_kernel(kernel._dispatcher.specialize(*asked)[1])[1]


def test_a_row_of_a_warp_that_does_not_start_below_0() -> None:
    starts = np.array([0, 70, 70, 200, 201, -20])
    values = np.arange(400)
    out = np.zeros(5, np.int64)
    sums_of_rows[2, 96](starts, values, out)
    np.testing.assert_array_equal(
        out, [values[a:b].sum() for a, b in pairwise([0, 70, 70, 200, 201])] + [0]
    )
    starts[:2] = -40, -3
    sums_of_rows[2, 96](starts, values, out)
    assert out[0] == values[-40:-3].sum()
    region = _read(sums_of_rows, "int64[::1], int64[::1], int64[::1]", (96, 1, 1))
    loads = [
        each
        for each in region.walk()
        if each.name == "array.load" and each.operands[0].name == "values"
    ]
    marks = {each.attributes["nonnegative"] for each in loads}
    assert marks == {(True,), (False,)}
