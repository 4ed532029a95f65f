"""Counters of loops that start at data: not negative as a rule, from the end where they are."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd

f32 = np.float32


@kd.kernel
def row_sums(values, starts, stops, out):
    i = kd.grid(1)
    if i < out.size:
        total = f32(0.0)
        for k in range(starts[i], stops[i]):
            total += values[k] * values[k + 1]
        out[i] = total


@kd.kernel
def until_found(values, starts, stops, out):
    i = kd.grid(1)
    if i < out.size:
        k = starts[i]
        for k in range(starts[i], stops[i]):
            if values[k] > f32(0.9):
                break
        out[i] = k


@kd.kernel
def of_columns(table, starts, stops, out):
    i = kd.grid(1)
    if i < out.size:
        total = f32(0.0)
        for k in range(starts[i], stops[i]):
            for j in range(2):
                total += table[k, j] * table[j, k]
            total -= table[k, i % 3]
        for k in range(starts[i], stops[i]):
            if k != 1:
                total += table[k, k]
        out[i] = total


@pytest.fixture
def bounds(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    starts = rng.integers(-9, 9, 200).astype(np.int32)
    return starts, (starts + rng.integers(-2, 9, 200)).astype(np.int32)


def sums_of(values, starts, stops):
    return [
        sum((values[k] * values[k + 1] for k in range(a, b)), f32(0))
        for a, b in zip(starts, stops, strict=True)
    ]


def found_by(values, starts, stops):
    for a, b in zip(starts, stops, strict=True):
        yield next((k for k in range(a, b) if values[k] > f32(0.9)), max(b - 1, a))


@pytest.mark.parametrize("debug", [False, True])
def test_a_start_may_be_negative(rng, bounds, debug):
    starts, stops = bounds
    values = rng.uniform(-1, 1, 40).astype(f32)
    sums, found = np.full(200, np.nan, f32), np.full(200, np.nan, f32)
    with kd.use("cpu"):
        kd.kernel(row_sums.function, debug=debug)[2, 128](values, starts, stops, sums)
        kd.kernel(until_found.function, debug=debug)[2, 128](values, starts, stops, found)
    np.testing.assert_allclose(sums, sums_of(values, starts, stops), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found, list(found_by(values, starts, stops)))


def test_axes_of_a_table(rng, bounds):
    starts, stops = bounds
    table = rng.integers(-9, 9, (20, 20)).astype(f32)
    out = np.full(200, np.nan, f32)
    with kd.use("cpu"):
        of_columns[2, 128](table, starts, stops, out)
    expected = np.zeros(200)
    for i, (a, b) in enumerate(zip(starts, stops, strict=True)):
        for k in range(a, b):
            expected[i] += table[k, 0] * table[0, k] + table[k, 1] * table[1, k]
            expected[i] -= table[k, i % 3]
            expected[i] += table[k, k] if k != 1 else 0
    np.testing.assert_array_equal(out, expected)
