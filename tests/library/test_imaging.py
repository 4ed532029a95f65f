"""The imaging kernels against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import ndimage

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl_demo.pipeline import equalized
from stdlib_kernels import imaging
from tests.support.arrays import poisoned, random_array, strided
from tests.support.extent import examples, full_beyond

DTYPES = ["uint8", "float32", "float64"]
SHAPES = [(1, 1), (1, 50), (50, 1), (7, 9), (32, 32), (65, 129), (0, 4), (4, 0)]


@pytest.mark.parametrize("channels", [3, 4])
def test_grey(call, rng, channels):
    for shape in SHAPES:
        image = random_array(rng, (*shape, channels), "uint8")
        red, green, blue = (image[..., c].astype(np.int64) for c in range(3))
        expected = (299 * red + 587 * green + 114 * blue + 500) // 1000
        got = call(imaging.grey, image)
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, expected, err_msg=str(shape))


def test_grey_keeps_grey(call):
    levels = np.arange(256, dtype=np.uint8)
    image = np.stack([levels, levels, levels], axis=-1)[np.newaxis]
    np.testing.assert_array_equal(call(imaging.grey, image)[0], levels)


@pytest.mark.parametrize(
    ("sigma", "dtype"),
    full_beyond(
        [pytest.param(sigma, dtype) for sigma in (0.5, 2.0, 5.3) for dtype in DTYPES],
        [pytest.param(0.5, "uint8"), pytest.param(2.0, "float32"), pytest.param(5.3, "float64")],
    ),
)
def test_gaussian_blur(call, rng, dtype, sigma):
    for shape in SHAPES:
        image = (rng.random(shape) * 255).astype(dtype)
        got = call(imaging.gaussian_blur, image, sigma)
        assert got.dtype == (np.float64 if dtype == "float64" else np.float32)
        expected = image.astype(np.float64)
        if image.size:
            expected = ndimage.gaussian_filter(expected, sigma)
        taps = 2 * int(4 * sigma + 0.5) + 1
        bound = 2 * (taps + 1) * np.finfo(got.dtype).eps * 255
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound, err_msg=str(shape))


@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(h=st.integers(1, 70), w=st.integers(1, 70), step=st.sampled_from([1, 2, -1]))
def test_gaussian_blur_of_any_size_and_layout(call, rng, h, w, step):
    image = strided(rng.random((h, w)), (step, -step))
    np.testing.assert_allclose(
        call(imaging.gaussian_blur, image, 1.5), ndimage.gaussian_filter(image, 1.5), atol=1e-14
    )


def test_gaussian_blur_truncated(call, rng):
    image = rng.random((40, 30))
    got = call(imaging.gaussian_blur, image, 2.0, truncate=1.5)
    np.testing.assert_allclose(
        got, ndimage.gaussian_filter(image, 2.0, truncate=1.5), rtol=0, atol=1e-14
    )


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["uint8"]))
def test_sobel(call, rng, dtype):
    for shape in SHAPES:
        image = (rng.random(shape) * 255).astype(dtype)
        got = call(imaging.sobel, image)
        assert got.dtype == (np.float64 if dtype == "float64" else np.float32)
        wide = image.astype(np.float64)
        expected = wide
        if image.size:
            expected = np.hypot(ndimage.sobel(wide, axis=0), ndimage.sobel(wide, axis=1))
        bound = 16 * np.finfo(got.dtype).eps * 8 * 255
        np.testing.assert_allclose(got, expected, rtol=0, atol=bound, err_msg=str(shape))


def test_histogram(call, rng):
    for shape in [(0,), (1,), (255,), (4097,), (100_003,), (63, 65), (5, 6, 7)]:
        image = rng.integers(0, rng.integers(1, 257), shape).astype(np.uint8)
        got = call(imaging.histogram, image)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, np.bincount(image.ravel(), minlength=256))


def test_histogram_of_one_value_and_of_strides(call, rng):
    black = np.zeros(300_000, np.uint8)
    assert call(imaging.histogram, black)[0] == black.size
    image = random_array(rng, (50, 60), "uint8")
    part = image[::3, ::-2]
    np.testing.assert_array_equal(
        call(imaging.histogram, part), np.bincount(part.ravel(), minlength=256)
    )


def test_equalize(call, rng):
    for shape in SHAPES:
        image = (rng.random(shape) ** 3 * 200 + 10).astype(np.uint8)
        expected = image
        if image.size:
            expected = equalized(image, np.bincount(image.ravel(), minlength=256))
        np.testing.assert_array_equal(call(imaging.equalize, image), expected, err_msg=str(shape))


def test_equalize_leaves_an_even_image(call):
    image = np.full((9, 11), 77, np.uint8)
    np.testing.assert_array_equal(call(imaging.equalize, image), image)


def test_equalize_of_a_slice_into_out(target, rng):
    image = random_array(rng, (64, 80), "uint8")
    part = image[::2, 1::2]
    expected = equalized(part, np.bincount(part.ravel(), minlength=256))
    out = poisoned(part.shape, np.uint8)
    assert imaging.equalize(part, out=out) is out
    np.testing.assert_array_equal(out, expected)
    device = kd.to_device(image)
    got = imaging.equalize(device[::2, 1::2])
    np.testing.assert_array_equal(got.copy_to_host(), expected)


def test_refusals(target):
    with pytest.raises(ArgumentTypeError, match="image has 2 channels"):
        imaging.grey(np.zeros((4, 4, 2), np.uint8))
    with pytest.raises(ArgumentValueError, match="image has 2 dimensions"):
        imaging.grey(np.zeros((4, 4), np.uint8))
    with pytest.raises(ArgumentTypeError, match="image has the dtype float64"):
        imaging.histogram(np.zeros(4))
    with pytest.raises(ArgumentTypeError, match="image has the dtype int32"):
        imaging.sobel(np.zeros((4, 4), np.int32))
    for sigma in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ArgumentValueError, match="sigma"):
            imaging.gaussian_blur(np.zeros((4, 4)), sigma)
