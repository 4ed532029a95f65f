"""Blocks of several axes, ids, and memory of blocks."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from tests.support.region_text import region_text


@kd.kernel
def transposed(x, out):
    tile = kd.shared.array((8, 16), kd.float32)
    i, j = kd.grid(2)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    value = kd.float32(-1)
    if j < x.shape[0] and i < x.shape[1]:
        value = x[j, i]
    tile[ty, tx] = value
    kd.syncthreads()
    row, column = kd.blockIdx.x * 16 + tx, kd.blockIdx.y * 8 + ty
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = tile[ty, tx] + value


def test_blocks_of_two_axes() -> None:
    x = np.arange(37 * 50, dtype=np.float32).reshape(37, 50)
    out = np.zeros((50, 37), np.float32)
    transposed[(4, 5), (16, 8)](x, out)
    np.testing.assert_array_equal(out, 2 * x.T)


@kd.kernel
def places(out):
    i, j, k = kd.grid(3)
    n, m, p = kd.gridsize(3)
    number = kd.threadIdx.x + kd.blockDim.x * (kd.threadIdx.y + kd.blockDim.y * kd.threadIdx.z)
    kd.syncthreads()
    out[i, j, k, 0] = n * 10000 + m * 100 + p
    out[i, j, k, 1] = number
    out[i, j, k, 2] = kd.laneid + kd.warpsize * 1000
    out[i, j, k, 3] = kd.gridDim.x * 100 + kd.gridDim.y * 10 + kd.gridDim.z
    out[i, j, k, 4] = kd.lanemask_lt()


def test_ids_of_three_axes() -> None:
    out = np.zeros((12, 10, 6, 5), np.int64)
    places[(2, 2, 3), (6, 5, 2)](out)
    i, j, k = np.indices((12, 10, 6))
    number = i % 6 + 6 * (j % 5 + 5 * (k % 2))
    assert (out[..., 0] == 121006).all()
    np.testing.assert_array_equal(out[..., 1], number)
    np.testing.assert_array_equal(out[..., 2], number % 32 + 32000)
    assert (out[..., 3] == 223).all()
    np.testing.assert_array_equal(out[..., 4], (1 << number % 32) - 1)


@kd.kernel
def threads_of_extent(x, out):
    i, j = kd.grid(2)
    out[i, j] = x[i, j] + kd.threadIdx.x + kd.gridsize(2)[1] * 100


@pytest.mark.parametrize("shape", [(5, 3), (64, 17)])
def test_threads_beyond_the_extent_do_not_run(shape: tuple[int, int]) -> None:
    x = np.zeros(shape, np.int64)
    out = np.full((shape[0] + 40, shape[1] + 40), -1)
    threads_of_extent.forall(*shape, block=(8, 4))(x, out)
    rows = np.arange(shape[0])[:, None] % 8 + shape[1] * 100
    np.testing.assert_array_equal(out[: shape[0], : shape[1]], np.broadcast_to(rows, shape))
    assert (out[shape[0] :] == -1).all()
    assert (out[:, shape[1] :] == -1).all()


@kd.kernel
def reversed_in_dynamic(x, out):
    memory = kd.shared.array(0, kd.float64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    memory[t] = x[i]
    kd.syncthreads()
    out[i] = memory[kd.blockDim.x - 1 - t] + memory.size


def test_dynamic_shared_memory() -> None:
    x = np.arange(256.0)
    out = np.zeros(256)
    reversed_in_dynamic[4, 64, 0, 64 * 8](x, out)
    np.testing.assert_array_equal(out, x.reshape(4, 64)[:, ::-1].ravel() + 64)


@kd.kernel
def reversed_in_much(x, out):
    memory = kd.shared.array((64, 512), kd.float64)
    small = kd.shared.array(64, kd.float64)
    dynamic = kd.shared.array(0, kd.float64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    memory[t, t * 7] = x[i]
    dynamic[t] = small[t] = i
    kd.syncthreads()
    r = kd.blockDim.x - 1 - t
    out[i] = memory[r, r * 7] + (dynamic[t] - small[t])


def test_storage_that_is_larger_than_the_stack() -> None:
    x = np.arange(256.0)
    out = np.zeros(256)
    reversed_in_much[4, 64, 0, 64 * 8](x, out)
    np.testing.assert_array_equal(out, x.reshape(4, 64)[:, ::-1].ravel())


@kd.kernel
def rows_across(x, out):
    t = kd.threadIdx.x
    row = x[t]
    number = x[t, 0] * 1j
    pair = (t, x[t, 1])
    kd.syncthreads()
    out[t] = row[2] + number.imag + pair[0] * pair[1]


def test_arrays_and_complex_numbers_outlive_a_barrier() -> None:
    x = np.arange(32 * 3.0).reshape(32, 3)
    out = np.zeros(32)
    rows_across[1, 32](x, out)
    np.testing.assert_array_equal(out, x[:, 2] + x[:, 0] + np.arange(32) * x[:, 1])


@kd.kernel
def only_lane(out):
    kd.syncthreads()
    out[kd.grid(1)] = kd.laneid + 1


def test_the_lane_of_a_block_of_one_thread() -> None:
    out = np.zeros(3, np.int64)
    only_lane[3, 1](out)
    np.testing.assert_array_equal(out, [1, 1, 1])


@kd.kernel
def passes(x, out):
    shared = kd.shared.array(32, kd.int64)
    memory = kd.shared.array(0, kd.int64)
    grid = kd.grid_group()
    i, t = kd.grid(1), kd.threadIdx.x
    total = 0
    for k in (1, 3):
        for m in range(k, 0, -1):
            shared[t] = x[i]
            memory[t] = m
            if x.size > k:
                grid.sync()
            value = x[(i + k) % x.size] + shared[31 - t] * memory[t]
            grid.sync()
            x[i] = value
            votes = kd.syncthreads_count(x[i] % 2 == 0)
            grid.sync()
            if m == 2 and k == 3:
                continue
            total += x[(i + m) % x.size] + votes
            grid.sync()
    out[i] = total


def test_barriers_of_the_grid_in_loops() -> None:
    x = np.arange(5 * 32) * 7 % 23
    out = np.zeros(160, np.int64)
    expected, total = x.copy(), np.zeros(160, np.int64)
    passes[5, 32, 0, 32 * 8](x, out)
    for k in (1, 3):
        for m in range(k, 0, -1):
            mirrored = expected.reshape(5, 32)[:, ::-1].ravel()
            expected = np.roll(expected, -k) + mirrored * m
            votes = (expected.reshape(5, 32) % 2 == 0).sum(1).repeat(32)
            if not (m == 2 and k == 3):
                total += np.roll(expected, -m) + votes
    np.testing.assert_array_equal(x, expected)
    np.testing.assert_array_equal(out, total)


@kd.kernel
def rotated(x, rounds):
    i = kd.grid(1)
    for _ in range(rounds):
        value = x[(i + 1) % kd.gridsize(1)]
        kd.grid_group().sync()
        x[i] = value
        kd.grid_group().sync()


def test_an_index_is_computed_again_after_a_barrier_of_the_grid() -> None:
    source = rotated.cpu_source("int64[::1], int64", block=64)
    assert source.count("= slot[") == 2  # the value and the counter


def sums_of_neighbours(x, out, rounds):
    t = kd.threadIdx.x
    tile = kd.shared.array(64, kd.float32)
    total = kd.float32(0)
    for k in range(rounds):
        tile[t] = x[k, t]
        kd.syncthreads()
        total += tile[63 - t] * tile[t]
        kd.syncthreads()
    out[t] = total


def keeps_what_was_before(x, out, rounds):
    t = kd.threadIdx.x
    tile = kd.shared.array(64, kd.float32)
    total, before = kd.float32(0), kd.float32(1)
    for k in range(rounds):
        tile[t] = x[k, t]
        kd.syncthreads()
        found = tile[63 - t] - total
        kd.syncthreads()
        before, total = total + before, found
    out[t] = total + kd.float32(2) * before


def reads_what_is_computed_from_it(x, out, rounds):
    t = kd.threadIdx.x
    tile = kd.shared.array(64, kd.float32)
    tile[t] = x[0, t]
    kd.syncthreads()
    first = t + rounds
    more = first * 3
    tile[63 - t] += 1
    kd.syncthreads()
    total = first
    for k in range(rounds):
        tile[t] += total
        kd.syncthreads()
        total += k
        tile[63 - t] *= 2
        kd.syncthreads()
    out[t] = total + more + tile[t]


def changes_in_a_branch(x, out, rounds):
    t = kd.threadIdx.x
    tile = kd.shared.array(64, kd.float32)
    total = kd.float32(0)
    for k in range(rounds):
        tile[t] = x[k, t]
        kd.syncthreads()
        if tile[0] < k - 5:
            break
        found = total + tile[63 - t]
        kd.syncthreads()
        if k % 2 == 0:
            total = found
    out[t] = total


def begins_with_what_is_read_later(x, out, rounds):
    t = kd.threadIdx.x
    tile = kd.shared.array(64, kd.float32)
    tile[t] = x[0, t]
    kd.syncthreads()
    first = tile[63 - t] * kd.float32(2)
    kd.syncthreads()
    total = first
    for _ in range(rounds):
        tile[t] = total
        kd.syncthreads()
        total += tile[63 - t]
        kd.syncthreads()
    out[t] = total - first


@pytest.mark.parametrize(
    ("function", "slots"),
    [
        (sums_of_neighbours, 1),
        (keeps_what_was_before, 3),
        (changes_in_a_branch, None),
        (reads_what_is_computed_from_it, None),
        (begins_with_what_is_read_later, 2),
    ],
)
def test_a_sum_is_stored_where_the_sum_before_was(function, slots: int | None) -> None:
    kernel = kd.kernel(contract=False)(function)
    if slots is not None:
        text = region_text(kernel, "float32[:, ::1], float32[::1], int64", block=64)
        assert text.count("= slot[") == slots
    alone = kd.kernel(contract=False, debug=True)(function)
    x = np.random.default_rng(1).standard_normal((7, 64)).astype(np.float32)
    x[:, 0] = np.arange(7) - 4.5
    for rounds in (0, 1, 2, 7):
        out, expected = np.zeros((2, 64), np.float32)
        kernel[1, 64](x, out, rounds)
        alone[1, 64](x, expected, rounds)
        np.testing.assert_array_equal(out, expected)
