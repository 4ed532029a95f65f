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
    if dtype == "uint64":
        return _unsigned_ranges(high, given)
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


def _unsigned_ranges(high: int, given: int | None) -> list[tuple[int, int, int]]:
    half = 2**63
    bounds = [
        (0, high),
        (high, 0),
        (high - 9, high),
        (half - 3, half + 9),
        (half + 9, half - 3),
        (5, half),
        (0, 7),
        (7, 0),
    ]
    steps = [4, half - 1, half, half + 1, high] if given is None else [given]
    return [(*each, step) for each in bounds for step in steps]


def _in_int64(numbers: list[int]) -> list[int]:
    return [(each + 2**63) % 2**64 - 2**63 for each in numbers]


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint64"])
@pytest.mark.parametrize("kernel", _STEPS)
def test_iterations_are_those_of_python(kernel: Callable[..., None], dtype: str) -> None:
    signature = f"int64[::1], {', '.join([f'{dtype}[::1]'] * 3)}"
    grid = SimulatedGrid(compile_kernel(specialize(kernel, signature), arch="sm_90"))
    on_cpu = kd.kernel(kernel)
    for numbers in _ranges(dtype, _STEPS[kernel]):
        iterations = range(*numbers)[:_MOST]
        rest = [0] * (_MOST - len(iterations))
        expected = _in_int64([len(iterations), *iterations, *rest])
        arrays: list[Any] = [np.array([each]).astype(dtype) for each in numbers]
        out = np.zeros(1 + _MOST, np.int64)
        with kd.use("cpu"):
            on_cpu[1, 1](out, *arrays)
        np.testing.assert_array_equal(out, expected, str(numbers))
        out = np.zeros(1 + _MOST, np.int64)
        values = [value for each in (out, *arrays) for value in (each.ctypes.data, each.size)]
        grid.run((1, 1, 1), (1, 1, 1), values)
        np.testing.assert_array_equal(out, expected, str(numbers))


#: Bounds of uint64 and a step of either sign; and bounds with another type.
_MIXED = {
    ("uint64", "uint64", "int64"): [
        (2**64 - 1, 2**63 - 1, -(2**62)),
        (2**63 + 2, 2**63 - 2, -1),
        (2**63 - 2, 2**63 + 2, 3),
        (7, 0, -(2**63)),
        (5, 2**64 - 1, -1),
    ],
    ("uint32", "uint64", "uint8"): [(3, 2**64 - 1, 200), (3, 2, 1)],
    ("int32", "uint64", "int32"): [(-3, 2**33, 1), (5, 7, 1), (9, 2**62, -1)],
    ("int32", "uint32", "int32"): [(-3, 2**32 - 1, 1), (5, 2**31, 2**31 - 1)],
    ("uint64", "int64", "int64"): [(4, -1, -1), (4, 9, 2)],
}


def numbered(out, start, stop, step):
    for n, i in enumerate(range(start[0], stop[0], step[0])):
        out[0] = n + 1
        out[n + 1] = i
        if n + 2 == out.size:
            break


@pytest.mark.parametrize("dtypes", _MIXED, ids="-".join)
@pytest.mark.parametrize("kernel", [by_any_step, numbered])
def test_bounds_of_several_types(kernel: Callable[..., None], dtypes: tuple[str, ...]) -> None:
    on_cpu = kd.kernel(kernel)
    for numbers in _MIXED[dtypes]:
        iterations = range(*numbers)[:_MOST]
        rest = [0] * (_MOST - len(iterations))
        out = np.zeros(1 + _MOST, np.int64)
        arrays = [np.array([n], dtype) for n, dtype in zip(numbers, dtypes, strict=True)]
        with kd.use("cpu"):
            on_cpu[1, 1](out, *arrays)
        assert out.tolist() == _in_int64([len(iterations), *iterations, *rest]), str(numbers)


def from_a_literal(out, stop):
    for i in range(2, stop[0]):
        out[0] += 1
        out[out[0]] = i
        if out[0] == out.size - 1:
            break


def from_a_signed_number(out, stop):
    for i in range(out[0], stop[0]):
        out[0] += 1
        out[out[0]] = i
        if out[0] == out.size - 1:
            break


def test_a_literal_beside_a_uint64_is_one() -> None:
    out, stop = np.zeros(4, np.int64), np.array([2**64 - 1], np.uint64)
    with kd.use("cpu"):
        kd.kernel(from_a_literal)[1, 1](out, stop)
    assert out.tolist() == [3, 2, 3, 4]


def test_a_uint64_beside_a_signed_number_is_an_int64() -> None:
    out, stop = np.zeros(4, np.int64), np.array([2**64 - 1], np.uint64)
    with kd.use("cpu"):
        kd.kernel(from_a_signed_number)[1, 1](out, stop)
    assert out.tolist() == [0] * 4
