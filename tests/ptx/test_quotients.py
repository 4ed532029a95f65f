"""Divisions of integers in PTX: in 32 bits where numbers fit, without signs where none has one."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import body_of, compile_ptx, specialize
from tests.support.simulated_grid import SimulatedGrid


def test_counters_of_known_loops_are_divided_in_32_bits() -> None:
    def turns(out):
        i = kd.threadIdx.x
        cells = kd.shared.array((3, 256), np.int32)
        for d in range(511):
            cells[d % 3, i] = d // 7
            kd.syncthreads()
            out[i] += cells[d % 3, i + 1]

    body = body_of(compile_ptx(turns, "int32[::1]"))
    assert "mul.hi.u64" not in body
    assert "mul.hi.s64" not in body
    assert "setp.gt.u64" not in body  # nor is there a test whether they fit
    assert ".hi.u32" in body


def test_powers_of_two_that_a_loop_makes_need_no_division() -> None:
    def places(out):
        i, half = kd.threadIdx.x, 1
        while half < kd.blockDim.x:
            out[i] += i // half * 2 * half + i % half
            half *= 2

    body = body_of(compile_ptx(places, "int64[::1]"))
    assert "div." not in body
    assert "popc" in body


def test_numbers_without_a_sign_are_divided_so() -> None:
    def sizes(x, out):
        i = kd.grid(1)
        out[i] = i // x.size

    body = body_of(compile_ptx(sizes, "int64[::1], int64[::1]"))
    assert "div.u64" in body
    assert re.search(r"setp\.lt\.s64\s+%p\d+, %rd\d+, 0;", body)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_results_are_numpys(dtype: str) -> None:
    def divide(x, y, quotients, remainders):
        i, j = kd.grid(2)
        if i < x.size and j < y.size:
            quotients[i, j] = x[i] // y[j]
            remainders[i, j] = x[i] % y[j]

    limits = np.iinfo(dtype)
    edges = [
        0,
        1,
        2,
        3,
        255,
        2**31,
        2**32 - 1,
        2**32,
        2**33,
        limits.max,
        limits.min,
        limits.min + 1,
    ]
    edges += [-1, -2, -3, -(2**31), -(2**32)] if limits.min else [2**63, 2**63 - 1]
    x = np.array(edges, dtype)
    quotients, remainders = np.empty((2, x.size, x.size), dtype)
    signature = ", ".join([f"{dtype}[::1]"] * 2 + [f"{dtype}[:, ::1]"] * 2)
    grid = SimulatedGrid(compile_kernel(specialize(divide, signature), arch="sm_90"))
    ends = [x.ctypes.data, x.size] * 2
    shape = x.shape * 2
    grid.run(
        (1, 1, 1),
        (32, 32, 1),
        [*ends, quotients.ctypes.data, *shape, remainders.ctypes.data, *shape],
    )
    with np.errstate(all="ignore"):
        has_value = ~((x[:, None] == limits.min) & (x == -1)) if limits.min else True
        np.testing.assert_array_equal(quotients, np.where(has_value, x[:, None] // x, 0))
        np.testing.assert_array_equal(remainders, np.where(has_value, x[:, None] % x, 0))
