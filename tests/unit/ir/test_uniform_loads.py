"""Loads that a block does once for all of its threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.ir.frontend.read import read_function
from kerneldsl.ir.operations import Region
from kerneldsl.ir.uniformity import uniformity_of
from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
from kerneldsl.lowering.numba_internals.host_code import host_contexts
from kerneldsl.lowering.types import numba_types
from targets.cpu.regions.read import read_kernel


@kd.kernel
def after_sum(x, out):
    sums = kd.shared.array(64, kd.float64)
    t = kd.threadIdx.x
    sums[t] = x[kd.blockIdx.x, t]
    kd.syncthreads()
    step = 32
    while step > 0:
        if t < step:
            sums[t] += sums[t + step]
        kd.syncthreads()
        step //= 2
    total = sums[0]
    out[kd.blockIdx.x, t] = x[kd.blockIdx.x, t] / total


@kd.kernel
def before_store(x, out):
    t = kd.threadIdx.x
    first = x[0]
    out[t] = first
    x[t] = t + 10.0


@kd.kernel
def after_store(x, out):
    t = kd.threadIdx.x
    x[t] = t + 10.0
    if t == 5:
        out[t] = x[5] + t


@kd.kernel
def in_loops(x, out):
    t = kd.threadIdx.x
    total = 0.0
    for k in range(3):
        total += x[k]
        kd.syncthreads()
        x[t] = total + t
        kd.syncthreads()
    out[t] = total


@kd.kernel
def after_exits(x, n, out):
    t = kd.threadIdx.x
    if t >= n:
        return
    kd.syncthreads()
    first = x[n]
    kd.syncthreads()
    out[t] = first


def _loads_of_block(kernel: Any, signature: str) -> int:
    """Return how many loads are in no loop over threads."""

    def count(region: Region) -> int:
        return sum(
            (each.name == "array.load") + sum(map(count, each.regions))
            for each in region.operations
            if each.name != "row"
        )

    with global_compiler_lock:
        asked = kernel._asked_for((signature,), None, (64, 1, 1), None, "cpu", None)
        return count(read_kernel(kernel._dispatcher.specialize(*asked)[1])[1])


_A = "float64[::1]"


@pytest.mark.parametrize(
    ("kernel", "signature", "expected"),
    [
        (after_sum, "float64[:, ::1], float64[:, ::1]", 1),
        (in_loops, f"{_A}, {_A}", 1),
        (after_exits, f"{_A}, int64, {_A}", 1),
    ],
)
def test_what_is_loaded_once(kernel: Any, signature: str, expected: int) -> None:
    assert _loads_of_block(kernel, signature) == expected


@kd.kernel
def in_tests(x, out):
    while kd.atomic.add(x, 0, 1) < 5:
        kd.syncthreads()
    out[kd.threadIdx.x] = x[1]


@kd.kernel
def after_break(x, out):
    for k in range(9):
        kd.syncthreads()
        if out.size == k:
            x[kd.threadIdx.x] = k
            break
    out[kd.threadIdx.x] = x[0]


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(before_store, 0), (after_store, 0), (in_loops, 1), (in_tests, 0), (after_break, 0)],
)
def test_memory_that_is_written_between_two_barriers(kernel: Any, expected: int) -> None:
    asked = kernel._asked_for((f"{_A}, {_A}",), None, (64, 1, 1), None, "cpu", None)
    spec = kernel._dispatcher.specialize(*asked)[1]
    typing = host_contexts().typing_context
    function = read_function(spec.unit, numba_types(spec.kinds), typing)
    assert len(uniformity_of(function, spec.kinds).uniform_loads) == expected


def test_results() -> None:
    x = np.arange(128.0).reshape(2, 64)
    out = np.zeros((2, 64))
    after_sum[2, 64](x, out)
    np.testing.assert_array_equal(out, x / x.sum(1, keepdims=True))
    x, out = np.zeros(64), np.zeros(64)
    after_store[1, 64](x, out)
    np.testing.assert_array_equal(out, np.where(np.arange(64) == 5, 20, 0))
    x = np.ones(64)
    in_loops[1, 64](x, out)
    total, t, values = 0.0, np.arange(64), np.ones(64)
    for k in range(3):
        total += values[k]
        values = total + t
    np.testing.assert_array_equal(out, total)
    for n in (0, 5, 63):
        out[:] = -1
        after_exits[1, 64](x, n, out)
        np.testing.assert_array_equal(out, np.where(t < n, x[n], -1))
