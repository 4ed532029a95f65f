"""Gradients of functions of rows against the formulas in float64, and against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentValueError
from stdlib_kernels import rows
from tests.support.arrays import strided

EPS = 1e-3
SHAPES = [((5, 70), 1), ((1, 1), 0), ((3, 300, 4), 1), ((40,), 0), ((0, 3), 1), ((2, 1000), -1)]


def difference(function, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """The gradient of a function of an array by central differences."""
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        ahead, behind = x.copy(), x.copy()
        ahead[place] += step
        behind[place] -= step
        found[place] = (function(ahead) - function(behind)) / (2 * step)
    return found


def norm_of(x, weight, bias, axis, is_centred):
    along = tuple(-1 if i == axis % x.ndim else 1 for i in range(x.ndim))
    mean = x.mean(axis, keepdims=True) if is_centred else 0
    scale = 1 / np.sqrt(np.square(x - mean).mean(axis, keepdims=True) + EPS)
    return (x - mean) * scale * weight.reshape(along) + bias.reshape(along)


@pytest.mark.full
def test_gradients_are_limits_of_differences(target, rng):
    x, g = rng.standard_normal((2, 3, 5))
    for function, backward in (
        (special.softmax, rows.softmax_backward),
        (special.log_softmax, rows.log_softmax_backward),
    ):
        exact = difference(lambda v, f=function: (g * f(v, 1)).sum(), x)
        np.testing.assert_allclose(backward(g, function(x, 1)), exact, atol=1e-8)
    weight, bias = rng.standard_normal((2, 5))
    for is_centred, backward in ((True, rows.layer_norm_backward), (False, rows.rms_norm_backward)):
        found = backward(g, x, weight, eps=EPS)

        def loss(v, w, b, is_centred=is_centred):
            return (g * norm_of(v, w, b, 1, is_centred)).sum()

        np.testing.assert_allclose(
            found[0], difference(lambda v: loss(v, weight, bias), x), atol=1e-8
        )
        np.testing.assert_allclose(
            found[1], difference(lambda w: loss(x, w, bias), weight), atol=1e-8
        )
        if is_centred:
            exact = difference(lambda b: loss(x, weight, b), bias)
            np.testing.assert_allclose(found[2], exact, atol=1e-8)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_formulas_over_axes_and_layouts(target, to_kind, rng, dtype):
    info = np.finfo(dtype)
    for shape, axis in SHAPES:
        x, g = (strided(rng.standard_normal(shape).astype(dtype), (2,) * len(shape)) for _ in "xg")
        wide, wide_g = x.astype(float), g.astype(float)
        weight = rng.standard_normal(shape[axis]).astype(dtype)
        along = tuple(-1 if i == axis % len(shape) else 1 for i in range(len(shape)))
        gw = wide_g * weight.astype(float).reshape(along)
        n, bound = shape[axis], 40 * info.eps
        others = tuple(i for i in range(len(shape)) if i != axis % len(shape))

        def close(got, exact, scale=1.0, bound=bound):
            got = got.copy_to_host() if isinstance(got, kd.DeviceArray) else got
            assert got.dtype == dtype
            tolerance = bound * scale * (1 + np.abs(exact).max(initial=0))
            np.testing.assert_allclose(got.astype(float), exact, rtol=0, atol=tolerance)

        y = special.softmax(wide, axis).astype(dtype) if x.size else x
        exact = y.astype(float)
        exact = exact * (wide_g - (wide_g * exact).sum(axis, keepdims=True))
        close(rows.softmax_backward(to_kind(g), to_kind(y), axis), exact)
        logs = special.log_softmax(wide, axis).astype(dtype) if x.size else x
        exact = wide_g - np.exp(logs.astype(float)) * wide_g.sum(axis, keepdims=True)
        close(rows.log_softmax_backward(to_kind(g), to_kind(logs), axis), exact, 10)
        for is_centred in (True, False):
            ones, none = np.ones(n), np.zeros(n)
            hat = norm_of(wide, ones, none, axis, is_centred) if x.size else wide
            mean = wide.mean(axis, keepdims=True) if is_centred and x.size else 0
            square = np.square(wide - mean).mean(axis, keepdims=True) if x.size else 1
            common = gw.mean(axis, keepdims=True) if is_centred and x.size else 0
            part = hat * (gw * hat).mean(axis, keepdims=True) if x.size else hat
            exact = (gw - common - part) / np.sqrt(square + EPS)
            backward = rows.layer_norm_backward if is_centred else rows.rms_norm_backward
            found = backward(to_kind(g), to_kind(x), to_kind(weight), axis=axis, eps=EPS)
            close(found[0], exact, 20)
            close(found[1], (wide_g * hat).sum(others), 20)
            if is_centred:
                close(found[2], wide_g.sum(others), 20)


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(ArgumentValueError, match=r"grad has the shape \(2, 3\)"):
        rows.softmax_backward(x, np.ones((3, 2)))
    with pytest.raises(ArgumentValueError, match=r"weight has the shape \(2,\).* of the 3"):
        rows.layer_norm_backward(x, x, np.ones(2))
    for grad, y, axis in (
        (x, x, 2),
        (x.astype(np.float32), x, 0),
        (x.astype(int), x.astype(int), 0),
    ):
        with pytest.raises(ArgumentError):
            rows.log_softmax_backward(grad, y, axis)
