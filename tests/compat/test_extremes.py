"""``max`` and ``min`` of floats in numba.cuda's programs: beside a NaN the number."""

from __future__ import annotations

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda

_VALUES = [0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan, 1e-310]


@cuda.jit(device=True)
def both(x, y):
    return max(x, y), min(x, y)


@cuda.jit
def extremes(x, y, high, low):
    i = cuda.grid(1)
    if i < high.size:
        high[i], low[i] = both(x[i], y[i])


@kd.kernel
def of_python(x, y, high, low):
    i = kd.grid(1)
    if i < high.size:
        high[i], low[i] = max(x[i], y[i]), min(x[i], y[i])


@pytest.mark.parametrize(("one", "two"), [("f4", "f4"), ("f4", "f8"), ("f8", "f8")])
def test_numbers_win_over_nan(one, two):
    rng = np.random.default_rng()
    pairs = [(a, b) for a in _VALUES for b in _VALUES]
    pairs += list(rng.normal(size=(37, 2)))
    x, y = (np.array(each, dt) for each, dt in zip(np.transpose(pairs), (one, two), strict=True))
    high, low = (np.full(len(pairs), 7, np.result_type(one, two)) for _ in range(2))
    with kd.use("cpu"):
        extremes[3, 64](x, y, high, low)
    np.testing.assert_array_equal(high, np.fmax(x, y))
    np.testing.assert_array_equal(low, np.fmin(x, y))
    is_zero = (x == 0) & (y == 0)
    np.testing.assert_array_equal(np.signbit(high[is_zero]), np.signbit(x + y)[is_zero])
    either = np.signbit(x) | np.signbit(y)
    np.testing.assert_array_equal(np.signbit(low[is_zero]), either[is_zero])


def test_in_ptx_it_is_one_instruction():
    for dtype, kind in (("float32", "f32"), ("float64", "f64")):
        signature = f"void({', '.join([f'{dtype}[:]'] * 4)})"
        text, _ = cuda.compile_ptx(extremes.py_func, signature)
        assert f"max.{kind}" in text
        assert f"min.{kind}" in text
        assert "setp.nan" not in text


def test_kernels_of_kerneldsl_keep_pythons_rule():
    x, y = np.array([np.nan, 1.0]), np.array([1.0, np.nan])
    high, low = np.zeros(2), np.zeros(2)
    with kd.use("cpu"):
        of_python[1, 32](x, y, high, low)
    expected = [max(a, b) for a, b in zip(x, y, strict=True)]
    np.testing.assert_array_equal(high, expected)
    np.testing.assert_array_equal(low, [min(a, b) for a, b in zip(x, y, strict=True)])


def test_integers_are_compared_exactly():
    @cuda.jit
    def kernel(x, y, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = max(x[i], y[i])

    x, y = np.array([2**53 + 1, -1]), np.array([2**53, 5])
    out = np.zeros(2, np.int64)
    with kd.use("cpu"):
        kernel[1, 32](x, y, out)
    np.testing.assert_array_equal(out, np.maximum(x, y))
