"""Functions of rows against SciPy and the formulas in float64, over axes, dtypes and layouts."""

from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import special

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels import rows
from stdlib_kernels.rows.calls import BLOCKS, LONG_TILE, MAX_TILE_BYTES, SPACE
from tests.support.arrays import poisoned, random_array, strided
from tests.support.extent import examples, full_beyond, sample

DTYPES = ["bool", "int16", "float16", "float32", "float64"]
#: A row that is too long to be one tile of float32, of no whole number of tiles.
TOO_LONG = MAX_TILE_BYTES // 4 + LONG_TILE + 7
EPS = 1e-3


def assert_near(got: np.ndarray, exact: np.ndarray, scale: np.ndarray, steps: float) -> None:
    """Hold that a result is `exact` but for so many roundings of numbers of a size."""
    computed = np.finfo(np.float32 if got.dtype.itemsize == 2 else got.dtype)
    info = np.finfo(got.dtype)
    bound = steps * computed.eps * scale + info.eps * np.abs(exact) + info.smallest_subnormal
    wrong = ~(np.abs(got.astype(np.float64) - exact) <= bound)
    wrong &= ~(np.isnan(got) & np.isnan(exact))
    assert not wrong.any(), f"{got[wrong][:4]} in the place of {exact[wrong][:4]}"


def check_softmax(call, x: np.ndarray, axis: int) -> None:
    """Compare both functions with SciPy's."""
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        exact, exact_log = special.softmax(wide, axis), special.log_softmax(wide, axis)
        # What is taken off an element is rounded, which its exponential multiplies.
        spread = np.abs(wide - wide.max(axis, keepdims=True))
    steps = 16 + x.shape[axis]
    spread[~np.isfinite(spread)] = 0
    dtype = np.float64 if x.dtype.kind in "biu" else x.dtype
    for function, expected, scale in (
        (rows.softmax, exact, exact * (1 + spread)),
        (rows.log_softmax, exact_log, 1 + spread),
    ):
        got = call(function, x, axis=axis)
        assert got.dtype == dtype
        assert got.shape == x.shape
        assert_near(got, expected, scale, steps)


def check_norms(call, x: np.ndarray, axis: int, weight: np.ndarray, bias: np.ndarray) -> None:
    """Compare both functions, with and without factors, with the formulas."""
    wide = x.astype(np.float64)
    along = tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim))
    w, b = (each.astype(np.float64).reshape(along) for each in (weight, bias))
    centred = wide - wide.mean(axis, keepdims=True)
    scale = 1 / np.sqrt(wide.var(axis, keepdims=True) + EPS)
    root = 1 / np.sqrt(np.square(wide).mean(axis, keepdims=True) + EPS)
    size = np.abs(wide).max(axis, keepdims=True, initial=0)
    # A mean is off by steps of the largest element, and the variance by as much relative to it.
    off = size * scale * (1 + size * scale)
    steps = 16 + x.shape[axis]
    layer, rms = rows.layer_norm, rows.rms_norm
    for got, exact, bound in (
        (call(layer, x, weight, bias, axis=axis, eps=EPS), centred * scale * w + b, off * abs(w)),
        (call(layer, x, axis=axis, eps=EPS), centred * scale, off),
        (call(rms, x, weight, axis=axis, eps=EPS), wide * root * w, size * root * abs(w)),
    ):
        assert got.dtype == (np.float64 if x.dtype.kind in "biu" else x.dtype)
        assert got.shape == x.shape
        assert_near(got, exact, bound + np.abs(exact) + np.abs(b), steps)


@st.composite
def layouts(draw):
    """Draw a shape, a step in memory along each axis, and the axis of the rows."""
    ndim = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 9)) for _ in range(ndim)]
    shape[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([0, 1, 33, 64, 257, 1000]))
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in range(ndim)]
    return tuple(shape), tuple(steps), draw(st.integers(-ndim, ndim - 1))


def draw_array(data, rng: np.random.Generator, dtype: str) -> tuple[np.ndarray, int]:
    """Return an array in a layout that is drawn, and the axis of its rows."""
    shape, steps, axis = data.draw(layouts())
    x = random_array(rng, shape, dtype)
    if x.dtype.kind == "i":
        x %= np.array(50, dtype)
    return strided(x, steps), axis


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
@settings(max_examples=examples(16, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_softmax_of_any_layout(call, rng, dtype, data):
    x, axis = draw_array(data, rng, dtype)
    if x.size:
        check_softmax(call, x, axis)
    else:
        assert call(rows.softmax, x, axis=axis).shape == x.shape


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=examples(16, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_norms_of_any_layout(call, rng, dtype, data):
    x, axis = draw_array(data, rng, dtype)
    if x.size:
        weight, bias = (random_array(rng, (x.shape[axis],), "float32") for _ in range(2))
        check_norms(call, x, axis, weight, bias)
    else:
        assert call(rows.rms_norm, x, axis=axis).shape == x.shape


@pytest.mark.parametrize("shape", full_beyond([(3, 100), (2, 4096), (2, TOO_LONG)], [(3, 100)]))
def test_rows_of_each_length(call, rng, shape):
    x = random_array(rng, shape, "float32") + np.float32(3)
    weight, bias = (random_array(rng, (shape[1],), "float32") for _ in range(2))
    check_softmax(call, x, 1)
    check_norms(call, x, 1, weight, bias)


@pytest.mark.full
def test_long_rows_whose_tiles_differ(call, rng):
    x = random_array(rng, (5, TOO_LONG), "float32")
    x[0, : LONG_TILE + 3] = x[1] = -np.inf
    x[2, -1], x[3, LONG_TILE] = np.nan, np.inf
    x[4, LONG_TILE:] += 1e4
    exact = special.softmax(x[:1].astype(np.float64), axis=1)
    np.testing.assert_allclose(call(rows.softmax, x[:1]), exact, rtol=1e-4)
    check_softmax(call, x[4:], 1)
    for function in (rows.softmax, rows.log_softmax):
        assert np.isnan(call(function, x[1:4])).all()
    far = x[4:].astype(np.float64)
    exact = (far - far.mean()) / np.sqrt(far.var() + EPS)
    for laid, axis in ((x[4:], 1), (np.ascontiguousarray(x[4:].T), 0)):
        got = call(rows.layer_norm, laid, axis=axis, eps=EPS)
        np.testing.assert_allclose(got.reshape(1, -1), exact, atol=1e-4)


@pytest.mark.full
def test_many_columns(call, rng):
    x = random_array(rng, (3, 40, 700), "float32")
    weight, bias = (random_array(rng, (40,), "float32") for _ in range(2))
    check_softmax(call, x, 1)
    check_norms(call, x, 1, weight, bias)


def test_special_values(call):
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4, -1e4]
    x = np.array([[a, b, 1, c] for a in values for b in values for c in values], np.float32)
    hidden = np.full((1, 4), -np.inf, np.float32)
    for each in (x, hidden):
        with np.errstate(invalid="ignore"):
            exact = special.softmax(each.astype(np.float64), axis=1)
        # SciPy has zeros beside the NaN of an infinity; here the whole row is NaN.
        exact[np.isnan(exact).any(axis=1)] = np.nan
        assert_near(call(rows.softmax, each, axis=1), exact, np.abs(exact), 100)


def test_large_numbers_do_not_overflow(call):
    x = np.array([[1e38, 1e38, -1e38], [-1e38, -1e38, -1e38]], np.float32)
    third = 1 / np.array(3, np.float32)
    got = call(rows.softmax, x)
    np.testing.assert_allclose(got, [[0.5, 0.5, 0], [third] * 3], rtol=1e-6)
    np.testing.assert_allclose(call(rows.log_softmax, x)[1], [-math.log(3)] * 3, rtol=1e-6)


def test_out(target, rng):
    x = random_array(rng, (5, 90), "float32")
    expected = rows.softmax(x)
    out = poisoned((5, 90), np.float32)
    assert rows.softmax(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    gaps = poisoned((10, 180), np.float32)[::2, ::2]
    assert rows.softmax(x, out=gaps) is gaps
    np.testing.assert_array_equal(gaps, expected)
    device = kd.to_device(x)
    assert rows.softmax(device, out=device) is device
    np.testing.assert_array_equal(device.copy_to_host(), expected)
    assert rows.softmax(x, out=x) is x
    np.testing.assert_array_equal(x, expected)


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(ArgumentValueError, match="axis 2 is not one of an array of 2 dimensions"):
        rows.softmax(x, 2)
    with pytest.raises(ArgumentTypeError, match="axis is None"):
        rows.softmax(x, None)
    with pytest.raises(ArgumentTypeError, match="x has the dtype complex128"):
        rows.log_softmax(x.astype(complex))
    with pytest.raises(ArgumentValueError, match=r"weight has the shape \(2,\).* of the 3"):
        rows.layer_norm(x, np.ones(2))
    with pytest.raises(ArgumentValueError, match="bias has 2 dimensions"):
        rows.layer_norm(x, None, x)
    with pytest.raises(ArgumentTypeError, match="weight is a DeviceArray"):
        rows.rms_norm(x, kd.to_device(np.ones(3)))
    with pytest.raises(ArgumentTypeError, match="out has the dtype float32"):
        rows.softmax(x, out=np.zeros((2, 3), np.float32))
    for eps in (-1e-9, math.nan):
        with pytest.raises(
            ArgumentValueError, match=f"eps is {eps}. It must be a number from 0 on"
        ):
            rows.layer_norm(x, eps=eps)
        with pytest.raises(ArgumentValueError, match=f"eps is {eps}"):
            rows.rms_norm_backward(x, x, eps=eps)
    with pytest.raises(
        ArgumentValueError, match=r"eps is 1e\+39\. It must be finite, and float32 has"
    ):
        rows.rms_norm(x.astype(np.float32), eps=1e39)


KERNELS = [
    kernel
    for name in ("exponentials", "normalization", "cross_entropy")
    for kernel in sys.modules[f"stdlib_kernels.rows.{name}"]._KERNELS[:2]
]


@pytest.mark.parametrize("arch", full_beyond(["sm_75", "sm_90", "sm_120"], ["sm_90"]))
def test_a_launch_that_was_not_tuned_takes_the_block_of_the_table(arch):
    softmax_short = KERNELS[0]
    arrays = ", ".join(["float32[:, ::1]"] * 2)
    for width in SPACE.parameters["width"]:
        kernel = softmax_short.member(width=width, number=np.float32, is_log=False)
        plan = kernel.forall(8192).plan(arrays, arch=arch)
        wanted = next(block for most, block in BLOCKS.items() if width <= most)
        assert (plan.block_dim, plan.grid_dim) == ((wanted, 1, 1), (8192, 1, 1))
        assert len(kernel.space) == sum(c.width == width for c in SPACE) > (width > 64)


def test_every_kernel_of_rows_has_the_space():
    assert len(KERNELS) == 6
    assert all(kernel.space is SPACE for kernel in KERNELS)


@pytest.mark.parametrize("n", full_beyond([900, TOO_LONG], [900]))
def test_tuned_rows(n, rng, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELDSL_CACHE", "1")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))
    with kd.use("cpu"):
        x, weight = random_array(rng, (37, n), "float32"), random_array(rng, (n,), "float32")
        labels = rng.integers(0, n, 37)
        calls = (
            lambda: rows.softmax(x),
            lambda: rows.layer_norm(x, weight, weight),
            lambda: rows.cross_entropy(x, labels),
        )
        calls = sample(calls, 1)
        untuned = [call() for call in calls]
        with kd.tune("60s"):  # ends sooner, unless the machine is busy
            tuned = [call() for call in calls]
        later = [call() for call in calls]
        for before, *others in zip(untuned, tuned, later, strict=True):
            for other in others:
                np.testing.assert_allclose(other, before, rtol=1e-4, atol=1e-5)
        width = LONG_TILE if n == TOO_LONG else 1024
        kernel = KERNELS[n == TOO_LONG].member(width=width, number=np.float32, is_log=False)
        report = kernel.forall(37).tune(x, np.empty_like(x), budget="cached", progress=False)
        assert len({each.plan.block_dim for each in report.tried if each.was_known}) > 1
