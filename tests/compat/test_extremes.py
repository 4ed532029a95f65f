"""``max`` and ``min`` of floats in numba.cuda's programs: beside a NaN the number."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl import cuda
from tests.compat.both_targets import target  # noqa: F401

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


def test_float_of_a_float16_is_one():
    @cuda.jit
    def squared(x, out):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = float(x[i]) * float(x[i])

    @kd.kernel
    def wide(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = float(x[i]) * float(x[i])

    x = np.random.default_rng().uniform(1, 60, 100).astype(np.float16)
    narrow, wider = (np.full(100, np.nan, np.float32) for _ in range(2))
    squared[1, 128](x, narrow)
    wide[1, 128](x, wider)
    np.testing.assert_array_equal(narrow, x * x)
    np.testing.assert_array_equal(wider, np.float32(x) * np.float32(x))


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


@cuda.jit
def _fuse(out, a, b, c):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = cuda.fp16.hfma(a[i], b[i], c[i])


def _rounded(exact):
    """Return the float16 that is nearest to a fraction, ties to even."""
    if abs(exact) >= 65520:
        return np.float16(np.inf if exact > 0 else -np.inf)
    near = np.float16(float(exact))  # or a neighbour of that
    around = [near, *(np.nextafter(near, np.float16(end)) for end in (-np.inf, np.inf))]
    return min(
        (each for each in around if np.isfinite(each)),
        key=lambda each: (abs(Fraction(float(each)) - exact), int(each.view(np.uint16)) & 1),
    )


def test_a_fused_product_is_rounded_once(rng):
    bits = rng.integers(0, 1 << 16, (3, 1501)).astype(np.uint16)
    bits[:, :500] = rng.integers(0x3800, 0x4200, (3, 500))  # of similar size
    bits[:2, :100] &= 0x83FF  # subnormal
    bits[:, 500] = 0x3C00, 0x1001, 0x3C00  # in float32 the tie is lost
    a, b, c = bits.view(np.float16)
    out = np.full(1501, -7, np.float16)
    _fuse[13, 128](out, a, b, c)
    for given in zip(out, a, b, c, strict=True):
        found, *factors = given
        if not all(map(np.isfinite, factors)):
            with np.errstate(all="ignore"):
                wanted = np.float64(factors[0]) * np.float64(factors[1]) + np.float64(factors[2])
            np.testing.assert_equal(float(found), wanted)
            continue
        first, second, third = map(Fraction, map(float, factors))
        assert found == _rounded(first * second + third), given
