"""What the CPU target writes for kernels that its passes rewrite."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import kerneldsl as kd

Check = Callable[[str, str], None]
f32, i32 = np.float32, np.int32


@kd.func
def rounds(re, im, most):
    """Return out of a loop that threads leave one by one."""
    a, b = f32(0), f32(0)
    for n in range(most):
        if a * a + b * b > f32(4):
            return n
        a, b = a * a - b * b + re, f32(2) * a * b + im
    return most


@kd.func
def nearest(value, places):
    """Run a loop that all threads end together."""
    least = f32(4)
    for k in range(places.size):
        least = min(least, abs(places[k] - value))
    return least


def escapes(x, out, most):
    i = kd.grid(1)
    if i < out.size:
        out[i] = rounds(x[i], f32(0.5), most)


def searches(x, places, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = nearest(x[i], places) + f32(1)


def totals(x, sums, most):
    i, t = kd.grid(1), kd.threadIdx.x
    part = kd.shared.array(16, f32)
    part[t] = x[i]
    kd.syncthreads()
    if t < 8:
        kd.atomic.add(sums, (t, 0), part[t] + part[t + 8])
        kd.atomic.max(most, t, part[t])


def source_of(function, *arguments, block: int | None = None) -> str:
    with kd.use("cpu"):
        return kd.kernel(function).cpu_source(*arguments, block=block)


def test_loops_of_functions(check_golden: Check) -> None:
    x = np.zeros(4, f32)
    check_golden("cpu_source.escapes", source_of(escapes, x, np.zeros(4, i32), 5))
    check_golden("cpu_source.searches", source_of(searches, x, x, x))


def test_gathered_atomics(check_golden: Check) -> None:
    x = np.zeros(16, f32)
    found = source_of(totals, x, np.zeros((8, 1), f32), np.zeros(8, f32), block=16)
    check_golden("cpu_source.totals", found)
