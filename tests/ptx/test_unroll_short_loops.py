"""Short loops of known length are unrolled in full."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kerneldsl as kd
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.pass_kernels import artifact_for_pass
from tests.support.simulated_grid import SimulatedGrid

_INTEGERS = "int64[::1], int64[::1]"


def seventeen(x, out):
    for k in range(17):
        out[k] = x[k] * x[k + 1]


def of_an_argument(x, out):
    for k in range(x.size):
        out[k] = x[k]


def with_a_break(x, out):
    for k in range(8):
        if x[k] > 4:
            break
        out[k] = x[k]


def with_a_loop(x, out):
    for k in range(4):
        for j in range(x.size):
            out[k] += x[j]


def with_a_shuffle(x, out):
    value = x[0]
    for k in range(8):
        value += kd.shfl_xor_sync(0xFFFFFFFF, value, k)
    out[0] = value


def long(x, out):
    v = x[0]
    for k in range(16):
        a, b, c, d = x[k], x[k + 1], x[k + 2], x[k + 3]
        v = v * a + b * c - d * v + (a ^ b) * (c | d) - a * d + b * v - c * c
        v = v * d + a * c - b * v + (a ^ d) * (c | b) - a * c + b * b
    out[0] = v


def _is_unrolled(function) -> bool:
    remarks = compile_ptx(function, _INTEGERS).passes
    return any(each.name == "unroll-short-loops" for each in remarks)


@pytest.mark.parametrize(
    "function",
    [seventeen, of_an_argument, with_a_break, with_a_loop, with_a_shuffle, long],
)
def test_others_stay(function) -> None:
    assert not _is_unrolled(function)


def in_steps(x, out):
    total = 0
    for k in range(12, -1, -3):
        total = total * 7 + x[k] * x[k + 1]
    out[0] = total


def test_a_loop_gives_the_same() -> None:
    artifact = compile_ptx(in_steps, _INTEGERS)
    assert any(each.name == "unroll-short-loops" for each in artifact.passes)
    x, out = np.arange(14) ** 2, np.zeros(1, np.int64)
    values = [part for a in (x, out) for part in (a.ctypes.data, a.size)]
    SimulatedGrid(artifact).run((1, 1, 1), (1, 1, 1), values)
    expected = np.zeros(1, np.int64)
    in_steps(x, expected)
    assert out == expected


def test_distances_to_sixteen_points_have_no_loop() -> None:
    """Golden: LLVM alone unrolled by two."""
    body = body_of(artifact_for_pass("unroll-short-loops"))
    assert "bra" not in body
    assert len(re.findall(r"ld\.global", body)) >= 16
    assert "bra" in body_of(artifact_for_pass("unroll-short-loops", "unroll-short-loops"))
