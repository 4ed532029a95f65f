"""Elements that the threads of a row share are loaded once, where each thread loads them first."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

f32 = np.float32
LOADED = "kd__loaded"


def shorten(distance, k, out):
    j, i = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        through = distance[i, k] + distance[k, j]
        if through < distance[i, j]:
            out[i, j] = through


def in_blocks(distance, k, out):
    """In a block, and in a loop of each thread."""
    s = kd.shared.array(32, f32)
    t, row = kd.threadIdx.x, kd.blockIdx.y
    j = kd.blockIdx.x * 32 + t
    s[t] = distance[row, k] if j < 3 else f32(0)
    kd.syncthreads()
    if row < out.shape[0] and j < out.shape[1]:
        total = distance[row, k - 1] * f32(2)
        for m in range(k):
            total += distance[row, m] * s[31 - t]
        out[row, j] = total


def after_own_write(distance, k, out):
    """A thread reads what it may have written: that is no element of the row's beginning."""
    j, i = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = f32(j)
        out[i, j] += out[i, j] * distance[0, 0] + (out[i, 0] if j == 0 else f32(0))


def where_asked(distance, k, out):
    """What only some threads load may lie outside of the array."""
    j, i = kd.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        far = k + 100_000_000
        value = f32(1) if j < 1000 else distance[far, far]
        if j > 1000 and distance[far, 0] > f32(0):
            value += distance[far, far]
        out[i, j] = value + distance[-1, k]


KERNELS = {k.__name__: k for k in (shorten, in_blocks, after_own_write, where_asked)}
#: Each with the kernel of debug mode, in which each thread runs by itself.
PAIRS = {name: (kd.kernel(k), kd.kernel(k, debug=True)) for name, k in KERNELS.items()}
SIGNATURE = "float32[:, ::1], int64, float32[:, ::1]"


@pytest.mark.parametrize("shape", [(5, 7), (1, 1), (0, 4), (4, 0), (9, 130)])
@pytest.mark.parametrize("name", KERNELS)
def test_rows_compute_what_each_thread_does(rng, name, shape):
    distance = rng.integers(-9, 9, (140, 140)).astype(f32)
    distance[3, 3] = np.nan
    results = []
    for kernel in PAIRS[name]:
        out = np.full(shape, 77, f32)
        with kd.use("cpu"):
            kernel[(5, 9), (32, 1)](distance, 3, out)
        results.append(out)
    np.testing.assert_array_equal(*results)


def test_an_array_is_read_and_written(rng):
    lengths = rng.integers(1, 99, (40, 40)).astype(f32)
    np.fill_diagonal(lengths, 0)
    found, expected = lengths.copy(), lengths.copy()
    kernel = kd.kernel(shorten)
    with kd.use("cpu"):
        for k in range(40):
            kernel[(2, 40), (32, 1)](found, k, found)
            np.minimum(expected, expected[:, k, None] + expected[k], out=expected)
    np.testing.assert_array_equal(found, expected)


@kd.kernel
def of_records(rows, out):
    i = kd.grid(1)
    if i < out.size:
        first = rows[0]
        rows[i].count = i + 5
        out[i] = first.count


def test_a_record_is_a_place():
    rows = np.zeros(40, [("count", np.int32)])
    out = np.full(40, -1)
    with kd.use("cpu"):
        of_records.forall(40)(rows, out)
    assert out[0] == 5
