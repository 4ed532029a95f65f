"""A thread loads what it stored, where its elements are apart and arrays are one.

In debug mode each thread runs by itself, from its beginning to its end: that is the oracle, bit for
bit where nothing is contracted.
"""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

POINT = np.dtype([("x", np.float64), ("y", np.float64)])


def turns(x, out, rounds):
    i = kd.grid(1)
    if i < out.size // 2:
        out[2 * i] = x[2 * i] * 2 - x[2 * i + 1] * 3
        out[2 * i + 1] = x[2 * i] * 3 + x[2 * i + 1] * 2


def stores_first(x, out, rounds):
    i = kd.grid(1)
    if i < out.size // 3:
        out[3 * i + 1] = rounds
        out[3 * i] = i
        x[3 * i + 2] += out[3 * i] * x[3 * i + 1]
        x[3 * i] -= out[3 * i + 2]


def shifts(x, out, rounds):
    i = kd.grid(1)
    if i < out.size // 4:
        for k in range(rounds):
            out[(i << 2) + k] += x[(i << 2) | 1]
            x[(i << 2) + 2] -= out[i << 2] * k


def repeats(x, out, rounds):
    """Elements are side by side; the loop inside has at most two iterations."""
    i = kd.grid(1)
    n = out.size // 8
    if i < n:
        for m in range(rounds):
            for k in range(m % 3):
                out[m * n + i] += x[k * n + i] + 1
                x[(k + 1) * n + i] -= out[i]
            out[m * n + i] *= 3


def through_shared(x, out, rounds):
    i, t = kd.grid(1), kd.threadIdx.x
    s = kd.shared.array((32, 2), np.float64)
    if i < out.size // 2:
        s[t, 0] = x[2 * i]
        s[t, 1] = x[2 * i + 1]
        for k in range(rounds):
            s[t, k % 2] += s[t, 1 - k % 2] * 2
            out[2 * i] = s[t, 0]
            s[t, 1] -= x[2 * i]
        out[2 * i + 1] = s[t, 1] - out[2 * i]


KERNELS = (turns, stores_first, shifts, repeats, through_shared)
PAIRS = {
    each.__name__: (
        kd.kernel(contract=False)(each),
        kd.kernel(contract=False, debug=True)(each),
    )
    for each in KERNELS
}


@pytest.mark.parametrize("rounds", [2, 4])
@pytest.mark.parametrize("threads", [1, 8, 31, 64, 130])
@pytest.mark.parametrize("name", PAIRS)
def test_one_array_is_read_and_written(rng, name, threads, rounds):
    size = threads * {"stores_first": 3, "shifts": 4, "repeats": 8}.get(name, 2)
    # Of positive elements each kernel changes at least one, whatever they are.
    x, results = rng.integers(1, 10, size).astype(float), []
    for kernel in PAIRS[name]:
        copy = x.copy()
        with kd.use("cpu"):
            kernel[-(-threads // 32), 32](copy, copy, rounds)
        results.append(copy)
    np.testing.assert_array_equal(*results)
    assert np.any(results[0] != x)


def turns_points(p, q):
    i = kd.grid(1)
    if i < p.size:
        q[i].x = p[i].x - p[i].y * 3
        q[i].y = p[i].x * 3 + p[i].y


def test_one_array_of_records_is_read_and_written(rng):
    p = np.zeros(75, POINT)
    p["x"], p["y"] = rng.integers(-9, 9, (2, 75))
    results = []
    for kernel in (kd.kernel(contract=False), kd.kernel(contract=False, debug=True)):
        copy = p.copy()
        with kd.use("cpu"):
            kernel(turns_points).forall(75)(copy, copy)
        results.append(copy)
    np.testing.assert_array_equal(*results)
