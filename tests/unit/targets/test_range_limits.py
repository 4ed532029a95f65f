"""Ranges near the limits of their integers: the iterations of Python's range, on both targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.compiler import compile_kernel
from tests.ptx.helpers import specialize
from tests.support.simulated_grid import SimulatedGrid

_MOST = 6


def by_any_step(out, start, stop, step):
    for i in range(start[0], stop[0], step[0]):
        out[0] += 1
        out[out[0]] = i
        if out[0] == out.size - 1:
            break


def by_four(out, start, stop, step):
    for i in range(start[0], stop[0], 4):
        out[0] += 1
        out[out[0]] = i
        if out[0] == out.size - 1:
            break


def by_one(out, start, stop, step):
    for i in range(start[0], stop[0]):
        out[0] += 1
        out[out[0]] = i
        if out[0] == out.size - 1:
            break


def downwards(out, start, stop, step):
    for i in range(start[0], stop[0], -3):
        out[0] += 1
        out[out[0]] = i
        if out[0] == out.size - 1:
            break


_STEPS: dict[Callable[..., None], int | None] = {
    by_any_step: None,
    by_four: 4,
    by_one: 1,
    downwards: -3,
}


def _ranges(dtype: str, given: int | None) -> list[tuple[int, int, int]]:
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    bounds = [
        (high - 9, high),
        (low + 9, low),
        (1, high // 2),
        (low, high),
        (high, low),
        (5, low),
        (0, 7),
        (7, 0),
    ]
    steps = [4, -4, high, low, high // 2 + 1, -high] if given is None else [given]
    return [(*each, step) for each in bounds for step in steps]


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("kernel", _STEPS)
def test_iterations_are_those_of_python(kernel: Callable[..., None], dtype: str) -> None:
    signature = f"int64[::1], {', '.join([f'{dtype}[::1]'] * 3)}"
    grid = SimulatedGrid(compile_kernel(specialize(kernel, signature), arch="sm_90"))
    on_cpu = kd.kernel(kernel)
    for numbers in _ranges(dtype, _STEPS[kernel]):
        iterations = range(*numbers)[:_MOST]
        expected = [len(iterations), *iterations, *[0] * (_MOST - len(iterations))]
        arrays: list[Any] = [np.array([each], dtype) for each in numbers]
        out = np.zeros(1 + _MOST, np.int64)
        with kd.use("cpu"):
            on_cpu[1, 1](out, *arrays)
        np.testing.assert_array_equal(out, expected, str(numbers))
        out = np.zeros(1 + _MOST, np.int64)
        values = [value for each in (out, *arrays) for value in (each.ctypes.data, each.size)]
        grid.run((1, 1, 1), (1, 1, 1), values)
        np.testing.assert_array_equal(out, expected, str(numbers))
