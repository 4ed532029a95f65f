"""Lanes of several masks go on together behind an exchange whose result nobody reads."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond

_ALL_LANES = np.uint32(0xFFFFFFFF)


@kd.kernel
def add_and_go_on(x, table, out, rounds):
    """Have lanes of one number add it, and let all of them go over a table together."""
    i = kd.grid(1)
    lanes = kd.match_any_sync(_ALL_LANES, x[i])
    kd.reduce_add_sync(lanes, x[i])
    total = np.int32(0)
    for k in range(rounds):
        if table[k] > 3:
            total = total * np.int32(3) + table[k]
        else:
            total = total ^ np.int32(k)
    out[i] = total


@kd.kernel
def vote_and_go_on(x, table, out, rounds):
    """Have lanes of one number vote, and let all of them go over a table together."""
    i = kd.grid(1)
    lanes = kd.match_any_sync(_ALL_LANES, x[i])
    kd.ballot_sync(lanes, x[i] > 2)
    kd.match_any_sync(lanes, x[i] // 2)
    total = np.int32(0)
    for k in range(rounds):
        if table[k] > 3:
            total = total * np.int32(3) + table[k]
        else:
            total = total ^ np.int32(k)
    out[i] = total


@kd.kernel
def add_and_wait(x, out, rounds):
    """Have lanes of one number add it, and let all of them wait for their neighbours."""
    i, t, n = kd.grid(1), kd.threadIdx.x, kd.blockDim.x
    there = kd.activemask()
    lanes = kd.match_any_sync(there, x[i])
    kd.reduce_add_sync(lanes, x[i])
    values = kd.shared.array(128, np.int32)
    value = np.int32(t)
    for _ in range(rounds):
        values[t] = value
        kd.syncthreads()
        value = values[(t + 1) % n] + np.int32(1)
        kd.syncthreads()
    out[i] = value


def _expected(table: np.ndarray) -> np.int32:
    total = np.int32(0)
    with np.errstate(over="ignore"):
        for k, each in enumerate(table):
            total = total * np.int32(3) + each if each > 3 else total ^ np.int32(k)
    return total


@pytest.mark.parametrize("kernel", [add_and_go_on, vote_and_go_on], ids=["add", "vote"])
@pytest.mark.parametrize("rounds", [7, 1001])
def test_loops_count_once(
    computing: str, kernel: kd.Kernel, rounds: int, rng: np.random.Generator
) -> None:
    table = rng.integers(0, 8, rounds).astype(np.int32)
    expected = _expected(table)
    for _ in range(20 if computing == "cuda" else 1):
        x = rng.integers(0, 5, 40 * 128).astype(np.int32)
        out = np.full(x.size, -1, np.int32)
        kernel[40, 128](x, table, out, rounds)
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("block", full_beyond([15, 32, 128], [15, 128]))
@pytest.mark.parametrize("rounds", [1, 50])
def test_barriers_hold(
    computing: str, dtype: str, block: int, rounds: int, rng: np.random.Generator
) -> None:
    expected = np.tile((np.arange(block) + rounds) % block + rounds, 7)
    for _ in range(20 if computing == "cuda" else 1):
        x = rng.integers(0, 5, 7 * block).astype(dtype)
        out = np.full(x.size, -1, np.int32)
        add_and_wait[7, block](x, out, rounds)
        np.testing.assert_array_equal(out, expected)
