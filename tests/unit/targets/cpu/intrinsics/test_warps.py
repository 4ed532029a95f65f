"""Exchanges within a warp on the CPU: what CUDA leaves undefined, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.errors import BarrierDivergenceError, KernelTypingError

FULL = 0xFFFFFFFF


@pytest.fixture(autouse=True)
def _on_the_cpu():
    with kd.use("cpu"):
        yield


@kd.kernel
def reads_lane(x, out, mask, lane):
    t = kd.threadIdx.x
    out[t] = kd.shfl_sync(mask, x[t], lane)


@pytest.mark.parametrize(
    ("mask", "lane"), [(FULL, 8), (0b01111111, 7)], ids=["does not exist", "is not named"]
)
def test_a_lane_that_takes_no_part_gives_nothing(mask, lane):
    x = np.arange(8.0) if lane == 7 else np.arange(5.0)
    out = np.zeros_like(x)
    reads_lane[1, x.size](x, out, mask, lane)
    assert out.tolist() == x.tolist()


@kd.kernel
def some_arrive(x, out):
    t = kd.threadIdx.x
    out[t, 0] = -1
    if x[t] > 2:
        out[t, 0] = kd.shfl_down_sync(FULL, x[t], 1)
        out[t, 1] = kd.ballot_sync(FULL, x[t] > 3)
        out[t, 2] = kd.all_sync(FULL, x[t] > 2)
        out[t, 3] = kd.any_sync(FULL, x[t] <= 2)


def test_lanes_that_do_not_arrive_take_no_part():
    x = np.array([3, 0, 4, 5, 1])
    out = np.zeros((5, 4), np.int64)
    some_arrive[1, 5](x, out)
    assert out[:, 0].tolist() == [3, -1, 5, 5, -1]
    assert out[[0, 2, 3], 1:].tolist() == [[0b01100, 1, 0]] * 3


@kd.kernel(debug=True)
def checked(x, out):
    t = kd.threadIdx.x
    out[t] = kd.shfl_xor_sync(FULL, x[t], 1)


def test_debug_mode():
    x, out = np.arange(40), np.zeros(40, np.int64)
    checked[1, 40](x, out)
    assert out.tolist() == (x ^ 1).tolist()
    with pytest.raises(kd.KernelFault, match="Index 40 is out of range"):
        checked[1, 41](x, out)


@kd.kernel
def barrier_in_a_loop_of_warps(x):
    t = kd.threadIdx.x
    for k in range(t // 32):
        x[t] = kd.shfl_sync(FULL, x[t], k)
        kd.syncthreads()


def test_a_barrier_of_the_block_in_a_loop_of_warps_is_refused():
    with pytest.raises(BarrierDivergenceError, match="syncthreads"):
        barrier_in_a_loop_of_warps[1, 64](np.zeros(64))


@kd.kernel
def uniform_loops(x, out):
    t = kd.threadIdx.x
    for k in range(x.size // 32):
        if k == 3:
            break
        out[t] += kd.shfl_sync(FULL, x[t], k)


def test_loops_that_a_block_runs_together_are_not_masked():
    text = uniform_loops.cpu_source("int64[::1], int64[::1]", block=64)
    assert "any.threads" not in text
    assert "for %" in text


def test_a_complex_number_is_refused():
    x = np.zeros(4, np.complex64)
    with pytest.raises(KernelTypingError, match=r"kd\.shfl_sync: value must be one of") as raised:
        reads_lane[1, 4](x, x.copy(), FULL, 0)
    assert "and is complex64, in `kd.shfl_sync(mask, x[t], lane)`" in str(raised.value)
