"""Launch kernels with barriers of the grid; a process of its own runs it, with other workers."""

from __future__ import annotations

import sys

import numpy as np

import kerneldsl as kd
from tests.support.processors import allow_any_number_of_threads

__all__ = ["main", "smoothed", "stirred"]


@kd.kernel
def stirred(x, out, start, stop, step):
    """Mix an array by loops, branches and exits that arguments decide, with values kept in each."""
    grid = kd.grid_group()
    i, n, t = kd.grid(1), kd.gridsize(1), kd.threadIdx.x
    ours = kd.shared.array(64, np.int64)
    own, count = x[i], 0
    ours[t] = own
    out[i] = own
    grid.sync()
    for k in range(start, stop, step):
        count += 1
        own += out[(i + k) % n]
        if k == 2:
            continue
        grid.sync()
        if i % 2 == 0:
            out[i] = own + k
        m = 0
        while m < k:
            m += 1
            kd.syncthreads()
            ours[t] += m
            kd.syncthreads()
            own += ours[(t + 1) % kd.blockDim.x]
            if m == 3:
                grid.sync()
                break
        grid.sync()
        if k == -2 and start > 0:
            break
        if count > 4:
            return
    kd.syncthreads()
    last = ours[kd.blockDim.x - 1 - t]
    grid.sync()
    if i % 3 == 1:
        return
    out[i] += own * 10 + last + count


@kd.kernel
def smoothed(a, b, rounds):
    first, step = kd.grid(1) + 1, kd.gridsize(1)
    for _ in range(rounds):
        for i in range(first, a.size - 1, step):
            b[i] = (a[i - 1] + a[i + 1]) * 0.5
        kd.grid_group().sync()
        for i in range(first, a.size - 1, step):
            a[i] = b[i]
        kd.grid_group().sync()


def main() -> None:
    rng = np.random.default_rng(int(sys.argv[1]))
    for blocks, block in ((400, 96), (3000, 7), (65, 1000)):
        a = rng.standard_normal(100_003)
        expected, b = a.copy(), np.full_like(a, np.nan)
        for _ in range(5):
            expected[1:-1] = (expected[:-2] + expected[2:]) * 0.5
        with kd.use("cpu"):
            smoothed[blocks, block](a, b, 5)
        np.testing.assert_array_equal(a, expected)


if __name__ == "__main__":
    allow_any_number_of_threads()
    main()
