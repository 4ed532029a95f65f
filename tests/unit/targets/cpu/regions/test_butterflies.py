"""Threads that meet the one at ``i ^ step`` run by halves of groups, where rows are whole groups.

In debug mode each thread runs by itself: that is the oracle, bit for bit.
"""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond

f32, i32 = np.float32, np.int32
HALVES, SWAPS = "kd_member", "kd_is_swapped"


def sorts_rows(x, out, extent):
    """Swap elements under a branch, by a bitonic network."""
    keys = kd.shared.array(256, f32)
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


def adds_up(x, out, extent):
    """Let both threads of a pair read the other's element, and write their own elsewhere."""
    sums = kd.shared.array((2, 256), f32)
    t = kd.threadIdx.x
    row = 0
    sums[0, t] = x[kd.blockIdx.x, t]
    kd.syncthreads()
    step = extent
    while step > 0:
        other = step ^ t
        value = sums[row, other] if other < kd.blockDim.x else f32(1)
        sums[1 - row, t] = sums[row, t] + f32(0.5) * value
        row = 1 - row
        kd.syncthreads()
        step //= 2
    out[kd.blockIdx.x, t] = sums[row, t]


def asks_for_the_half(x, out, extent):
    """Ask in every way which of the two a thread is, with a mask that no group shares as well."""
    t = kd.threadIdx.x
    values = kd.shared.array(256, f32)
    values[t] = x[kd.blockIdx.x, t]
    kd.syncthreads()
    for step in range(extent):
        partner = t ^ step
        kind = 0
        if t < partner:
            kind += 1
        if partner <= t:
            kind += 2
        if partner != t:
            kind += 4
        if t & step:
            kind += 8
        else:
            kind += 16
        kind += 32 * (t & 5) + 256 * (t & 96)
        if partner < kd.blockDim.x:
            out[kd.blockIdx.x, t] += kind * values[partner]


def of_whole_grid(x, out, extent):
    """Meet across the index in the grid, in memory of all blocks."""
    i = kd.grid(1)
    partner = i ^ extent
    value = f32(0)
    if 0 <= partner < x.size:
        value = x[partner] if partner > i else -x[partner]
    kd.syncthreads()
    out[i] = value + (i & 64)


def pair(function):
    """Return a kernel, and the same run thread by thread."""
    return kd.kernel(contract=False)(function), kd.kernel(contract=False, debug=True)(function)


PAIRS = {
    each.__name__: pair(each) for each in (sorts_rows, adds_up, asks_for_the_half, of_whole_grid)
}


def values(rows: int, columns: int) -> np.ndarray:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((rows, columns)).astype(f32)
    special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf], f32)
    x[:, rng.permutation(columns)[:5]] = special[: min(5, columns)]
    return x


def compare(name: str, threads: int, x: np.ndarray, extent: int) -> None:
    found, expected = np.full_like(x, 3), np.full_like(x, 3)
    with kd.use("cpu"):
        for kernel, out in zip(PAIRS[name], (found, expected), strict=True):
            kernel[3, threads](x, out, extent)
    np.testing.assert_array_equal(found.view(i32), expected.view(i32))


BLOCKS = [
    *(pytest.param("sorts_rows", 8), pytest.param("sorts_rows", 256)),
    *(pytest.param("adds_up", 24), pytest.param("adds_up", 64)),
    *(pytest.param("asks_for_the_half", 64), pytest.param("asks_for_the_half", 24)),
]


@pytest.mark.parametrize(("name", "threads"), full_beyond(BLOCKS, BLOCKS[1::2]))
def test_halves_do_what_threads_do(name: str, threads: int) -> None:
    compare(name, threads, values(3, threads), 2 ** (threads.bit_length() - 2))


@pytest.mark.parametrize("threads", [32, 40])
def test_across_blocks(threads: int) -> None:
    x = values(3, threads).reshape(-1)
    for step in (0, 1, 2, 3, 4, 8, 12, 16, 32, 64, -1, -64, 2**62, -(2**63)):
        compare("of_whole_grid", threads, x, step)


def test_a_network_sorts() -> None:
    x = np.random.default_rng(6).standard_normal((5, 256)).astype(f32)
    out = np.full_like(x, np.nan)
    with kd.use("cpu"):
        PAIRS["sorts_rows"][0][5, 256](x, out, 0)
    np.testing.assert_array_equal(out, np.sort(x))


def meets_within(x, out, first, end):
    """Let the threads of a part of a block meet their neighbours."""
    keys = kd.shared.array(64, f32)
    t = kd.threadIdx.x
    keys[t] = x[t]
    kd.syncthreads()
    if first <= t < end:
        other = t ^ 1
        if other > t and keys[t] > keys[other]:
            keys[t], keys[other] = keys[other], keys[t]
    kd.syncthreads()
    out[t] = keys[t]


MEETS = pair(meets_within)


@pytest.mark.parametrize("end", [-(2**63), -(2**63) + 2, -1, 0, 2, 7, 64])
def test_pairs_of_a_part_of_a_block(end: int) -> None:
    x = -np.arange(64, dtype=f32)
    for first in (0, 2, 3, 62, 2**63 - 2):
        found, expected = np.full((2, 64), np.nan, f32)
        with kd.use("cpu"):
            for kernel, out in zip(MEETS, (found, expected), strict=True):
                kernel[1, 64](x, out, first, end)
        np.testing.assert_array_equal(found, expected)
