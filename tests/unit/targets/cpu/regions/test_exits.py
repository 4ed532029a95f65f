"""Threads that leave branches, loops and kernels with barriers at different times."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

_THREADS = 64


@kd.kernel
def returns_early(x, n, out):
    shared = kd.shared.array(_THREADS, kd.float64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    if i >= n:
        return
    shared[t] = x[i]
    kd.syncthreads()
    if t % 3 == 0:
        out[i] = -1
        return
    kd.syncthreads()
    out[i] = shared[t - 1] + 1


@pytest.mark.parametrize("n", [0, 1, 63, 64, 65, 150])
def test_threads_return_before_a_barrier(n: int) -> None:
    x = np.arange(200.0)
    out = np.zeros(200)
    returns_early[3, _THREADS](x, n, out)
    i = np.arange(200)
    expected = np.where(i % _THREADS % 3 == 0, -1, x)
    np.testing.assert_array_equal(out, np.where(i < n, expected, 0))


@kd.kernel
def leaves_loops(steps, out):
    shared = kd.shared.array(_THREADS, kd.int64)
    t = kd.threadIdx.x
    shared[t] = 0
    total = 0
    for k in range(steps.size):
        if k == 7:
            continue
        if k == 11:
            break
        shared[t] += steps[k]
        kd.syncthreads()
        other = shared[(t + k) % _THREADS]
        if t == k:
            out[t] = -k
            return
        kd.syncthreads()
        if t % 2 == 0:
            total += other
            continue
        total += 2 * other
    kd.syncthreads()
    out[t] = total


def _left(steps: np.ndarray) -> np.ndarray:
    shared, total = np.zeros(_THREADS, np.int64), np.zeros(_THREADS, np.int64)
    out, inside = np.zeros(_THREADS, np.int64), np.ones(_THREADS, bool)
    t = np.arange(_THREADS)
    for k, step in enumerate(steps):
        if k == 7:
            continue
        if k == 11:
            break
        shared[inside] += step
        other = shared[(t + k) % _THREADS]
        now = inside & (t == k)
        out[now], inside = -k, inside & ~now
        total += np.where(inside, np.where(t % 2 == 0, 1, 2) * other, 0)
    return np.where(inside, total, out)


@pytest.mark.parametrize("count", [0, 5, 9, 20])
def test_a_loop_that_threads_leave(count: int) -> None:
    steps = np.arange(3, 3 + count)
    out = np.full(_THREADS, -99)
    leaves_loops[1, _THREADS](steps, out)
    np.testing.assert_array_equal(out, _left(steps))


@kd.kernel
def until_all_have_left(limits, out):
    t = kd.threadIdx.x
    rounds = 0
    while True:
        if rounds >= limits[t]:
            break
        kd.syncwarp()
        rounds += 1
    out[t] = rounds


@kd.kernel
def until_all_have_returned(limits, out):
    t = kd.threadIdx.x
    rounds = 0
    while True:
        if t % 4 != 3:
            kd.syncwarp()
            if rounds >= limits[t]:
                out[t] = rounds
                return
        elif rounds > 20:
            return
        rounds += 1


@kd.kernel
def counts_apart(limits, out):
    t = kd.threadIdx.x
    total = 0
    for k in range(limits[t] - 3, -1, -1):
        kd.syncwarp()
        if k == 5:
            continue
        total += k
        if total > 30:
            break
    out[t] = total


@kd.kernel
def swaps(limits, out):
    t = kd.threadIdx.x
    one, two = t, 1000
    k = 0
    while k < limits[t]:
        kd.syncwarp()
        one, two = two, one
        k += 1
    out[t] = one * 3 + two


def _counted(limit: int) -> int:
    total = 0
    for k in range(limit - 3, -1, -1):
        if k == 5:
            continue
        total += k
        if total > 30:
            break
    return total


@pytest.mark.parametrize("threads", [7, 32, 64])
def test_loops_that_threads_leave_at_different_times(threads: int) -> None:
    limits = np.arange(threads) * 5 % 13
    out = np.full(threads, -99)
    until_all_have_left[1, threads](limits, out)
    np.testing.assert_array_equal(out, limits)
    out[:] = -99
    until_all_have_returned[1, threads](limits, out)
    apart = np.arange(threads) % 4 == 3
    np.testing.assert_array_equal(out, np.where(apart, -99, limits))
    counts_apart[1, threads](limits, out)
    np.testing.assert_array_equal(out, [_counted(limit) for limit in limits])
    swaps[1, threads](limits, out)
    t, odd = np.arange(threads), limits % 2 == 1
    expected = np.where(odd, 3000 + t, 3 * t + 1000)
    np.testing.assert_array_equal(out, expected)


@kd.kernel
def nested(x, bounds, out):
    shared = kd.shared.array(_THREADS, kd.float64)
    t = kd.threadIdx.x
    total = 0.0
    if bounds[0] > 0:
        shared[t] = x[t]
        kd.syncthreads()
        for k in range(bounds[1]):
            for m in (1, 2, 5):
                total += shared[(t + m * k) % _THREADS]
                kd.syncthreads()
                shared[t] += m
                kd.syncthreads()
    else:
        kd.syncthreads()
        total = -1.0
    out[t] = total


@pytest.mark.parametrize("first", [0, 1])
def test_bounds_that_are_loaded(first: int) -> None:
    x = np.arange(float(_THREADS))
    out = np.zeros(_THREADS)
    nested[1, _THREADS](x, np.array([first, 4]), out)
    t, shared, total = np.arange(_THREADS), x.copy(), np.zeros(_THREADS)
    for k in range(4):
        for m in (1, 2, 5):
            total += shared[(t + m * k) % _THREADS]
            shared += m
    np.testing.assert_array_equal(out, total if first else -1)


@kd.kernel
def halves(x, out):
    shared = kd.shared.array(_THREADS, kd.float64)
    t = kd.threadIdx.x
    value = x[t]
    if value > 5:
        shared[t] = value
        kd.syncwarp()
        result = shared[t] * 2
        for k in range(t % 3):
            kd.syncwarp()
            result += k
    else:
        kd.syncwarp()
        result = -value
    out[t] = result


def test_both_sides_of_a_branch_of_threads() -> None:
    x = np.arange(float(_THREADS)) * 7 % 11
    out = np.zeros(_THREADS)
    halves[1, _THREADS](x, out)
    more = np.array([0, 0, 1])[np.arange(_THREADS) % 3]
    np.testing.assert_array_equal(out, np.where(x > 5, 2 * x + more, -x))
