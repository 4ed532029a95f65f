"""Rows of threads: each runs once, clamped indices are within limits, and values fold in strips."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

f32 = np.float32


@kd.kernel
def counts_itself(out, counts):
    x, y, z = kd.grid(3)
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] += 1
    counts[z % 2, y % 2, x % 2] = 1


def clamps(image, out, shift):
    """Read at places that are kept within an image, along both axes and past either end."""
    x, y = kd.grid(2)
    tx, ty = kd.threadIdx.x, kd.threadIdx.y
    height, width = image.shape
    tile = kd.shared.array((24, 16), f32)
    start = kd.blockIdx.y * kd.blockDim.y - 8
    for k in range(ty, 24, kd.blockDim.y):
        column = max(min(x + shift, width - 1), 0)
        tile[k, tx] = image[max(0, min(start + k, height - 1)), column]
    kd.syncthreads()
    if x < out.shape[1] and y < out.shape[0]:
        total = f32(0)
        for k in range(17):
            total += (k + 1) * tile[ty + k, tx]
        out[y, x] = total


def may_wrap(image, out, shift):
    """Read at a limit that may be negative, which then counts from the end."""
    t = kd.threadIdx.x
    y = kd.blockIdx.y
    value = kd.shared.array(64, f32)
    value[t] = image[y, min(t + shift, image.shape[1] - 1 - shift)]
    kd.syncthreads()
    if t < out.shape[1]:
        out[y, t] = value[63 - t]


def pair(function):
    """Return a kernel, and the same run thread by thread."""
    return kd.kernel(contract=False)(function), kd.kernel(contract=False, debug=True)(function)


CLAMPS, WRAPS = pair(clamps), pair(may_wrap)


def compare(kernels, grid, block, image, shift) -> None:
    found, expected = np.full((2, *image.shape), np.nan, f32)
    with kd.use("cpu"):
        kernels[0][grid, block](image, found, shift)
        kernels[1][grid, block](image, expected, shift)
    np.testing.assert_array_equal(found.view(np.int32), expected.view(np.int32))


def test_each_element_runs_once() -> None:
    for shape in ((1, 1, 1), (3, 5, 7), (2, 37, 150), (1, 9, 40_000), (7, 400, 64), (300, 2, 33)):
        out, counts = np.zeros(shape, np.int32), np.full((2, 2, 2), -1)
        grid = tuple(-(-n // b) for n, b in zip(reversed(shape), (32, 4, 1), strict=True))
        with kd.use("cpu"):
            counts_itself[grid, (32, 4)](out, counts)
        assert (out == 1).all(), shape


@pytest.mark.parametrize("shape", [(1, 1), (8, 16), (40, 64), (33, 130), (5, 47)])
@pytest.mark.parametrize("shift", [0, 3, -5, 2**63 - 1, -(2**63)])
def test_clamped_indices(shape: tuple[int, int], shift: int) -> None:
    image = np.random.default_rng(3).standard_normal(shape).astype(f32)
    grid = -(-shape[1] // 16), -(-shape[0] // 8)
    compare(CLAMPS, grid, (16, 8), image, shift)


@pytest.mark.parametrize("width", [8, 64, 200])
@pytest.mark.parametrize("shift", [0, 2, 5])
def test_limits_below_zero_count_from_the_end(width: int, shift: int) -> None:
    image = np.random.default_rng(4).standard_normal((3, width)).astype(f32)
    compare(WRAPS, (1, 3), 64, image, shift)


def sums_of_warps(x, sums, kept, mask, n):
    """Read kept elements at places that are no remainders in the middle of a row."""
    i = kd.grid(1)
    total = kd.reduce_add_sync(mask, x[i])
    local = kd.local.array((3, 2), np.uint16)
    for k in range(3):
        for j in range(2):
            local[k, j] = n + k
    last = local[(i - 2) % 3, 1]
    sums[i] = total
    kept[i] = last
    kd.syncthreads()


SUMS = pair(sums_of_warps)


def test_parts_of_rows_have_the_sums_of_their_warps(rng):
    """The first lane of a warp adds up for the others, and may be in another part of its row."""
    x = rng.integers(-1000, 1000, 128)
    expected = np.repeat(x.reshape(4, 32).sum(axis=1), 32)
    for kernel in SUMS:
        sums, kept = np.full((2, 128), -1)
        with kd.use("cpu"):
            kernel[1, 128](x, sums, kept, 0xFFFFFFFF, 20)
        assert np.array_equal(sums, expected)
        assert np.array_equal(kept, 20 + (np.arange(128) - 2) % 3)
