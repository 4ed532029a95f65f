"""Cross-entropy and its gradient against the formula in float64, over axes, dtypes and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import special

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from stdlib_kernels import rows
from stdlib_kernels.rows.calls import LONG_TILE, MAX_TILE_BYTES
from tests.library.test_rows import assert_near, draw_array
from tests.library.test_rows_backward import difference
from tests.support.arrays import poisoned, random_array, strided
from tests.support.extent import examples, full_beyond

LABELS = ["int64", "int32", "uint8", "uint64"]
TOO_LONG = MAX_TILE_BYTES // 4 + LONG_TILE + 7


def exact_loss(x: np.ndarray, labels: np.ndarray, axis: int, ignored: int = -100) -> np.ndarray:
    """Return the losses as float64; NaN at labels that are out of range."""
    count = x.shape[axis]
    wide = labels.astype(object)
    is_left_out = wide == ignored
    is_right = (wide >= 0) & (wide < count)
    near = np.where(is_right, labels, 0).astype(np.int64)
    with np.errstate(invalid="ignore"):
        logs = special.log_softmax(x.astype(np.float64), axis)
    # SciPy has -inf beside the NaN of an infinity; here the whole row is NaN.
    logs = np.where(np.isnan(logs).any(axis, keepdims=True), np.nan, logs)
    found = -np.take_along_axis(logs, np.expand_dims(near, axis), axis).squeeze(axis)
    found = np.where(is_right.astype(bool), found, np.nan)
    return np.where(is_left_out.astype(bool), 0, found)


def exact_gradient(
    grad: np.ndarray, x: np.ndarray, labels: np.ndarray, axis: int, ignored: int = -100
) -> np.ndarray:
    """Return the gradients as float64."""
    places = np.arange(x.shape[axis]).reshape(
        [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    )
    chosen = np.expand_dims(labels, axis) == places
    found = np.expand_dims(grad.astype(np.float64), axis) * (
        special.softmax(x.astype(np.float64), axis) - chosen
    )
    wide = np.expand_dims(labels.astype(object), axis)
    is_right = ((wide >= 0) & (wide < x.shape[axis])).astype(bool)
    return np.where((wide == ignored).astype(bool), 0, np.where(is_right, found, np.nan))


def random_labels(rng: np.random.Generator, shape: tuple[int, ...], count: int, dtype: str):
    """Return labels in range, every fifth the one that tests leave out."""
    labels = rng.integers(0, min(count, 256), shape)
    labels[rng.random(shape) < 0.2] = 3
    return labels.astype(dtype)


def check(call, x: np.ndarray, labels: np.ndarray, axis: int, ignored: int) -> None:
    wide = x.astype(np.float64)
    exact = exact_loss(x, labels, axis, ignored)
    spread = np.abs(wide - wide.max(axis, keepdims=True)).max(axis)
    got = call(rows.cross_entropy, x, labels, axis=axis, ignore_index=ignored)
    assert got.dtype == (np.float64 if x.dtype.kind in "biu" else x.dtype)
    assert got.shape == labels.shape
    assert_near(np.asarray(got), np.asarray(exact), 1 + spread, 16 + x.shape[axis])
    if x.dtype.kind in "biu":
        return
    grad = random_array(np.random.default_rng(x.size), labels.shape, str(x.dtype))
    grad = np.asarray(grad)
    got = call(rows.cross_entropy_backward, grad, x, labels, axis=axis, ignore_index=ignored)
    exact = exact_gradient(grad, x, labels, axis, ignored)
    assert got.dtype == x.dtype
    scale = np.abs(np.expand_dims(grad.astype(np.float64), axis)) * (
        1 + np.expand_dims(spread, axis)
    )
    assert_near(got, exact, scale, 16 + x.shape[axis])


@pytest.mark.parametrize(
    "dtype", full_beyond(["bool", "int16", "float16", "float32", "float64"], ["float32"])
)
@settings(max_examples=examples(16, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_layout(call, rng, dtype, data):
    x, axis = draw_array(data, rng, dtype)
    shape = tuple(np.delete(x.shape, axis))
    labels = random_labels(rng, shape, max(x.shape[axis], 1), data.draw(st.sampled_from(LABELS)))
    if x.ndim > 1:
        labels = strided(labels, (2,) * labels.ndim)
    if x.size:
        check(call, x, labels, axis, data.draw(st.sampled_from([3, -100])))
    else:
        assert call(rows.cross_entropy, x, labels, axis=axis).shape == shape


@pytest.mark.parametrize("shape", full_beyond([(3, 100), (2, 4096), (2, TOO_LONG)], [(3, 100)]))
def test_rows_of_each_length(call, rng, shape):
    x = random_array(rng, shape, "float32") + np.float32(3)
    labels = rng.integers(0, shape[1], shape[:1])
    labels[-1] = shape[1] - 1
    check(call, x, labels, 1, -100)


def test_labels_out_of_range_and_left_out(call):
    x = np.arange(12, dtype=np.float64).reshape(4, 3)
    labels = np.array([0, 3, -1, -100])
    exact = [special.logsumexp(x[0]) - x[0, 0], np.nan, np.nan, 0]
    np.testing.assert_allclose(call(rows.cross_entropy, x, labels), exact)
    found = call(rows.cross_entropy_backward, np.ones(4), x, labels)
    assert np.isnan(found[1:3]).all()
    np.testing.assert_array_equal(found[3], 0)
    across = call(rows.cross_entropy, np.ascontiguousarray(x.T), labels, axis=0)
    np.testing.assert_allclose(across, exact)
    huge = np.array([0, 2**63, 2**64 - 1, 2**64 - 100], np.uint64)
    np.testing.assert_array_equal(np.isnan(call(rows.cross_entropy, x, huge)), [0, 1, 1, 1])
    found = call(rows.cross_entropy_backward, np.ones(4), x, huge)
    np.testing.assert_array_equal(np.isnan(found).all(1), [0, 1, 1, 1])


def test_special_values(call):
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e4]
    x = np.array([[a, b, 1] for a in values for b in values], np.float32)
    for label in range(3):
        labels = np.full(len(x), label)
        with np.errstate(over="ignore"):
            exact = exact_loss(x, labels, 1)
        np.testing.assert_allclose(call(rows.cross_entropy, x, labels), exact, 1e-5, 1e-5)
    no_scores = np.zeros((2, 0), np.float32)
    assert np.isnan(call(rows.cross_entropy, no_scores, np.zeros(2, int))).all()


@pytest.mark.full
def test_gradient_is_the_limit_of_differences(target, rng):
    x, g = rng.standard_normal((4, 5)), rng.standard_normal(4)
    labels = np.array([1, 4, -100, 0])
    exact = difference(lambda v: (g * exact_loss(v, labels, 1)).sum(), x)
    np.testing.assert_allclose(rows.cross_entropy_backward(g, x, labels), exact, atol=1e-8)


def test_out_and_repeated_calls(target, rng):
    x, labels = random_array(rng, (6, 40), "float32"), rng.integers(0, 40, 6)
    expected = rows.cross_entropy(x, labels)
    out = poisoned((12,), np.float32)[::2]
    assert rows.cross_entropy(x, labels, out=out) is out
    np.testing.assert_array_equal(out, expected)
    other = random_array(rng, (6, 40), "float32")
    again = rows.cross_entropy(other, labels[::-1].copy())
    assert_near(again, exact_loss(other, labels[::-1], 1), np.full(6, 10.0), 56)
    scalar = rows.cross_entropy(x[0], np.asarray(labels[0]))
    np.testing.assert_allclose(scalar, expected[0], rtol=1e-6)


def test_refusals(target):
    x, labels = np.ones((2, 3)), np.zeros(2, int)
    with pytest.raises(ArgumentValueError, match=r"labels has the shape \(3,\)"):
        rows.cross_entropy(x, np.zeros(3, int))
    with pytest.raises(ArgumentTypeError, match="labels has the dtype float64"):
        rows.cross_entropy(x, np.zeros(2))
    with pytest.raises(ArgumentTypeError, match="labels is a DeviceArray"):
        rows.cross_entropy(x, kd.to_device(labels))
    with pytest.raises(ArgumentValueError, match="ignore_index"):
        rows.cross_entropy(x, labels, ignore_index=2**70)
    with pytest.raises(ArgumentTypeError, match="x has the dtype int64"):
        rows.cross_entropy_backward(np.ones(2), x.astype(int), labels)
    with pytest.raises(ArgumentError, match="grad has"):
        rows.cross_entropy_backward(np.ones(3), x, labels)
