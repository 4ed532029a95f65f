"""Filters of neighbours against ``scipy.ndimage``."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import ndimage

import kerneldsl as kd
from kerneldsl.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from stdlib_kernels import stencil
from stdlib_kernels.arrays import to_host
from stdlib_kernels.stencil import boxes as box_kernels
from stdlib_kernels.stencil import filters, lines, planes
from stdlib_kernels.stencil.borders import border_of
from tests.support.arrays import poisoned, random_array, strided
from tests.support.extent import examples, full_beyond

MODES = ["reflect", "mirror", "nearest", "wrap", "constant", "grid-mirror", "grid-constant"]
DTYPES = ["float32", "float64", "uint8", "int32"]


def array_of(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return rng.standard_normal(shape).astype(dtype)
    return rng.integers(0, 100, shape).astype(dtype)


def assert_like(got: np.ndarray, expected: np.ndarray, scale: float, message: str = "") -> None:
    """Hold that both are equal, but for roundings of sums of a size; of integers, one step."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    is_float = got.dtype.kind == "f"
    bound = 60 * np.finfo(got.dtype).eps * scale if is_float else 0
    np.testing.assert_allclose(
        got.astype(float), expected.astype(float), rtol=0, atol=bound, err_msg=message
    )


@st.composite
def boxes(draw):
    """Draw a shape, the extents of weights, and a place of their middle for each axis."""
    ndim = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 40 if ndim == 1 else 11)) for _ in range(ndim))
    box = tuple(draw(st.sampled_from([2, 3])) for _ in range(ndim))
    origin = tuple(draw(st.integers(-(n // 2), n - 1 - n // 2)) for n in box)
    return shape, box, origin


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=boxes(), mode=st.sampled_from(MODES), step=st.sampled_from([1, 2, -1]))
def test_weights_of_a_box(call, rng, dtype, drawn, mode, step):
    shape, box, origin = drawn
    x = strided(array_of(rng, shape, dtype), (step,) * len(shape))
    weights = rng.integers(-3, 4, box).astype(np.float64)  # with zeros, and exact in integers
    given = {"mode": mode, "cval": 7, "origin": origin}
    if dtype == "uint8":  # of negative sums SciPy leaves the result to the compiler
        weights = np.abs(weights)
    expected = ndimage.correlate(x, weights, **given)
    assert_like(call(stencil.correlate, x, weights, **given), expected, 1000)
    for n, by in zip(box, origin, strict=True):
        if n % 2 == 0 and by == n - 1 - n // 2:
            return  # reversed, that middle would lie beyond the weights, which SciPy says too
    mirrored = {**given, "origin": tuple(-by for by in origin)}
    try:
        expected = ndimage.convolve(x, weights, **mirrored)
    except ValueError:
        return
    assert_like(call(stencil.convolve, x, weights, **mirrored), expected, 1000)


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES[:5])
@pytest.mark.parametrize("many", [1, 512])
@pytest.mark.parametrize(
    ("dtype", "shape", "box"),
    [
        ("float32", (130, 70), (7, 6)),
        ("float64", (3, 9, 40), (2, 3, 35)),
        ("int32", (1, 33), (3, 3)),
        ("float32", (150, 40), (11, 3)),
        ("float64", (60, 50), (80, 90)),  # a halo that no block has memory for
    ],
)
def test_weights_of_a_box_by_tiles_as_on_a_gpu(
    target, rng, monkeypatch, dtype, shape, box, mode, many
):
    monkeypatch.setattr(box_kernels, "is_on_host", lambda x: False)
    monkeypatch.setattr(box_kernels, "MANY_BLOCKS", many)  # with 1 the parts are large
    x = array_of(rng, shape, dtype)
    weights = rng.integers(-3, 4, box).astype(np.float64)  # with zeros
    weights[(0,) * len(box)] = 0
    if dtype == "float32":
        x[5, 6], x[-1, -1] = np.inf, np.nan
    given = {"mode": mode, "cval": 7}
    with np.errstate(invalid="ignore"):
        expected = ndimage.correlate(x, weights, **given)
    got = stencil.correlate(x, weights, **given)
    assert_like(got, expected, 1000 * len(box) * weights.size**0.5, f"{mode}")


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data(), mode=st.sampled_from(MODES), count=st.sampled_from([1, 2, 3, 8]))
def test_weights_along_an_axis(call, rng, dtype, data, mode, count):
    ndim = data.draw(st.integers(1, 3))
    shape = tuple(data.draw(st.integers(1, 9)) for _ in range(ndim))
    axis = data.draw(st.integers(-ndim, ndim - 1))
    origin = data.draw(st.integers(-(count // 2), (count - 1) // 2))
    x = array_of(rng, shape, dtype)
    weights = rng.integers(0, 4, count).astype(np.float64)
    given = {"axis": axis, "mode": mode, "cval": 3, "origin": origin}
    expected = ndimage.correlate1d(x, weights, **given)
    assert_like(call(stencil.correlate1d, x, weights, **given), expected, 1000)
    reversed_ = {**given, "origin": -origin}
    try:
        expected = ndimage.convolve1d(x, weights, **reversed_)
    except ValueError:
        with pytest.raises(ArgumentValueError, match="origin"):
            call(stencil.convolve1d, x, weights, **reversed_)
        return
    assert_like(call(stencil.convolve1d, x, weights, **reversed_), expected, 1000)


@pytest.mark.full
@pytest.mark.parametrize("items", [1, 5])
def test_parts_of_long_rows_and_columns(target, rng, monkeypatch, items):
    """Each target takes as many elements a thread as a GPU, or as the host."""
    for name in ("ROW_ITEMS", "COLUMN_ITEMS", "HOST_COLUMN_ITEMS"):
        monkeypatch.setattr(lines, name, items)
    monkeypatch.setattr(lines, "is_on_host", lambda x: items == 1)
    x = array_of(rng, (3, 2 * lines.BLOCK * items + 77), "float64")
    weights = rng.standard_normal(11)
    for array, axis in ((x, 1), (x.T, 0)):
        got = stencil.correlate1d(array, weights, axis, "mirror", origin=2)
        assert_like(got, ndimage.correlate1d(array, weights, axis, mode="mirror", origin=2), 30)


@pytest.mark.full
@pytest.mark.parametrize("mode", MODES[:5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("shape", "taps"),
    [((1, 1), (1, 1)), ((40, 250), (3, 5)), ((2, 33, 500), (17, 17)), ((17, 225), (40, 2))],
)
def test_both_axes_at_once_have_the_bits_of_two_passes(target, rng, dtype, shape, taps, mode):
    x, border = array_of(rng, shape, dtype), border_of(mode, 0.75)
    x[..., -1] = np.nan
    down, across = (
        lines.axis_weights(rng.standard_normal(n), axis)
        for n, axis in zip(taps, (len(shape) - 2, len(shape) - 1), strict=True)
    )
    source = kd.to_device(x)
    between, twice, once = (kd.to_device(poisoned(shape, dtype)) for _ in range(3))
    lines.filter_line(source, between, border, down)
    lines.filter_line(between, twice, border, across)
    planes.filter_plane(source, once, border, down, across)
    found, expected = once.copy_to_host(), twice.copy_to_host()
    if target == "cuda":
        np.testing.assert_array_equal(found, expected)
    else:  # The library does not do both at once there, and products may be contracted.
        assert_like(found, expected, 30)


def test_the_last_two_axes_are_filtered_at_once(target, monkeypatch):
    monkeypatch.setattr(filters, "is_on_host", lambda array: False)
    x = kd.to_device(np.ones((2, 20, 30), np.float32))
    steps = [lines.axis_weights(np.ones(3), axis) for axis in range(3)]
    alike, other = [border_of("wrap", 0)] * 3, border_of("mirror", 0)
    divided = [*steps[:2], steps[2]._replace(divisor=3.0)]
    for taken, borders, lengths in (
        (steps, alike, [1, 2]),
        (steps, [other, *alike[1:]], [1, 2]),
        (steps, [*alike[1:], other], [1, 1, 1]),
        (steps[::-1], alike, [1, 1, 1]),
        (divided, alike, [1, 1, 1]),
    ):
        assert [len(each) for each in filters._passes(taken, x, x, borders)] == lengths


@pytest.mark.full
def test_more_weights_than_a_block_has_memory_for(target, rng):
    x, weights = rng.random(50), np.ones(lines.MAX_SHARED_BYTES // 8 + 2)
    got = stencil.correlate1d(x, weights, mode="nearest")
    np.testing.assert_allclose(got, ndimage.correlate1d(x, weights, mode="nearest"), rtol=1e-10)


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
def test_smoothing(call, rng, dtype):
    for shape in [(50,), (1, 1), (31, 44), (4, 5, 6), (0, 3)]:
        x = array_of(rng, shape, dtype)
        for sigma, mode in ((1.5, "reflect"), ((2.0,) + (0,) * (len(shape) - 1), "wrap")):
            expected = x
            if x.size:
                expected = ndimage.gaussian_filter(x, sigma, mode=mode, truncate=3.0)
            got = call(stencil.gaussian_filter, x, sigma, mode=mode, truncate=3.0)
            if got.dtype.kind == "f":
                assert_like(got, expected, 10)
            else:  # sums beside an integer are cut off to either side, once for each axis
                assert np.abs(got.astype(int) - expected.astype(int)).max(initial=0) <= len(shape)
        size = tuple(range(1, len(shape) + 1))
        expected = ndimage.uniform_filter(x, size, mode="mirror") if x.size else x
        assert_like(call(stencil.uniform_filter, x, size, "mirror"), expected, 10)


@pytest.mark.full
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["sobel", "prewitt", "laplace"])
def test_derivatives(call, rng, dtype, name):
    for shape in [(30,), (17, 20), (5, 6, 7)]:
        x = array_of(rng, shape, dtype)
        for mode in ("reflect", "nearest"):
            given = {"mode": mode} if name == "laplace" else {"axis": 0, "mode": mode}
            expected = getattr(ndimage, name)(x, **given)
            assert_like(call(getattr(stencil, name), x, **given), expected, 300, str(shape))


@pytest.mark.full
@pytest.mark.parametrize("dtype", [*DTYPES, "int64"])
def test_median(call, rng, dtype):
    for shape, size in [((40,), 5), ((13, 17), 3), ((9, 8), (4, 1)), ((5, 6, 7), (1, 2, 3))]:
        x = random_array(rng, shape, dtype)
        if dtype == "int64":  # SciPy compares them as float64
            x //= 2**14
        for mode in ("reflect", "constant"):
            expected = ndimage.median_filter(x, size, mode=mode, cval=3)
            got = call(stencil.median_filter, x, size, mode, 3)
            np.testing.assert_array_equal(got, expected)
            assert got.dtype == x.dtype


FOOTPRINTS = {
    "cross": ((13, 17), [[0, 1, 0], [1, 1, 1], [0, 1, 0]]),
    "row": ((9, 8), [[1, 0, 0, 1]]),
    "box": ((5, 6, 7), np.arange(12).reshape(2, 3, 2) % 3),
}


@pytest.mark.parametrize("mode", full_beyond(["reflect", "constant", "wrap"], ["reflect"]))
@pytest.mark.parametrize("dtype", full_beyond(["float32", "uint8"], ["uint8"]))
@pytest.mark.parametrize("name", full_beyond(FOOTPRINTS, ["cross"]))
def test_medians_of_footprints(to_kind, rng, name, dtype, mode):
    shape, footprint = FOOTPRINTS[name]
    x, chosen = random_array(rng, shape, dtype), np.asarray(footprint) != 0
    for each in (chosen, chosen, np.flip(chosen), ~chosen):  # a call is not repeated for another
        found = stencil.median_filter(to_kind(x), 3, mode, 3, footprint=to_kind(each))
        expected = ndimage.median_filter(x, footprint=each, mode=mode, cval=3)
        np.testing.assert_array_equal(to_host(found), expected)
    with pytest.raises(ArgumentValueError, match="not zero"):
        stencil.median_filter(to_kind(x), footprint=to_kind(chosen & ~chosen))


RANKS = {
    "minimum_filter": (),
    "maximum_filter": (),
    "rank_filter": (1,),
    "percentile_filter": (80,),
    "median_filter": (),
}


@pytest.mark.parametrize("mode", full_beyond(["reflect", "constant", "wrap"], ["reflect"]))
@pytest.mark.parametrize("dtype", full_beyond(["float32", "uint8", "int64"], ["float32"]))
@pytest.mark.parametrize("name", RANKS)
def test_ranks(to_kind, rng, name, dtype, mode):
    function, numbers = getattr(stencil, name), RANKS[name]
    expected = getattr(ndimage, name)
    shape, footprint = FOOTPRINTS["cross"]
    x = array_of(rng, shape, dtype)
    for options in ({"size": 3}, {"size": (2, 4), "origin": (-1, 1)}, {"footprint": footprint}):
        for _ in range(2):  # planned, and repeated
            found = function(to_kind(x), *numbers, **options, mode=mode, cval=7)
            wanted = expected(x, *numbers, **options, mode=mode, cval=7)
            np.testing.assert_array_equal(to_host(found), wanted)
    cube = array_of(rng, (4, 5, 6), dtype)
    found = function(to_kind(cube), *numbers, footprint=np.arange(12).reshape(2, 3, 2) % 3)
    wanted = expected(cube, *numbers, footprint=np.arange(12).reshape(2, 3, 2) % 3)
    np.testing.assert_array_equal(to_host(found), wanted)
    out = to_kind(np.zeros_like(cube))
    for size in ((2, 1, 3), 1, (1, 4, 1)):
        function(to_kind(cube), *numbers, 3 if name == "rank_filter" else size, mode, out=out)
        wanted = expected(cube, *numbers, 3 if name == "rank_filter" else size, mode=mode)
        np.testing.assert_array_equal(to_host(out), wanted)


def test_ranks_are_within_the_box(rng):
    x = np.arange(6.0)
    with kd.use("cpu"):
        for rank in (-3, -1, 0, 2):
            expected = ndimage.rank_filter(x, rank, 3)
            np.testing.assert_array_equal(stencil.rank_filter(x, rank, 3), expected)
        for percentile in (0, 20, 50, 100, -20, -100, 33.4):
            expected = ndimage.percentile_filter(x, percentile, 4)
            np.testing.assert_array_equal(stencil.percentile_filter(x, percentile, 4), expected)
        for rank in (3, -4):
            with pytest.raises(ArgumentValueError, match="rank is"):
                stencil.rank_filter(x, rank, 3)
        for percentile in (100.5, -101):
            with pytest.raises(ArgumentValueError, match="percentile is"):
                stencil.percentile_filter(x, percentile)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["float16"])
def test_halves_are_computed_as_float32(call, rng, dtype):
    x = array_of(rng, (20, 30), dtype)
    got = call(stencil.gaussian_filter, x, 1.0)
    expected = ndimage.gaussian_filter(x.astype(np.float32), 1.0)
    # After each axis a result is rounded.
    np.testing.assert_allclose(got.astype(float), expected, atol=2e-3 * 4)


@pytest.mark.full
def test_large_integers_are_stored_as_they_are(call):
    x = np.full((3, 40), 2**63 + 2**20, np.uint64)
    for axis in range(2):
        got = call(stencil.correlate1d, x, [1.0], axis=axis)
        np.testing.assert_array_equal(got, ndimage.correlate1d(x, [1.0], axis=axis))


def test_infinities_without_weight_have_no_part(call):
    x = np.ones((5, 5), np.float32)
    x[2, 2] = np.inf
    x[0, 4] = np.nan
    star = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)
    with np.errstate(invalid="ignore"):
        expected = ndimage.correlate(x, star)
        np.testing.assert_array_equal(call(stencil.correlate, x, star), expected)
        np.testing.assert_array_equal(call(stencil.laplace, x), expected)


def test_out_and_in_place(target, rng):
    x = rng.random((20, 31))
    expected = ndimage.gaussian_filter(x, 1.0)
    for out in (poisoned((20, 31), np.float64), poisoned((40, 31), np.float64)[::2]):
        assert stencil.gaussian_filter(x, 1.0, out=out) is out
        np.testing.assert_allclose(out, expected, rtol=1e-13)
    device = kd.to_device(x)
    assert stencil.gaussian_filter(device, 1.0, out=device) is device
    np.testing.assert_allclose(device.copy_to_host(), expected, rtol=1e-13)
    wanted = ndimage.correlate(x, np.ones((3, 3)))
    stencil.correlate(x, np.ones((3, 3)), out=x)
    np.testing.assert_allclose(x, wanted, rtol=1e-13)
    np.testing.assert_array_equal(stencil.gaussian_filter(x, 0), x)


def test_refusals(target):
    x = np.ones((4, 5))
    with pytest.raises(ArgumentValueError, match="mode is 'mirrored'"):
        stencil.sobel(x, mode="mirrored")
    with pytest.raises(ArgumentValueError, match="x has 2 axes, and weights the shape"):
        stencil.correlate(x, np.ones(3))
    with pytest.raises(ArgumentValueError, match=r"weights the shape .* Pass a weight"):
        stencil.correlate(x[0], [])
    for function in (stencil.laplace, stencil.median_filter):
        with pytest.raises(ArgumentValueError, match=r"x\.ndim is 4.* one to three axes"):
            function(x[None, None])
        with pytest.raises(ArgumentValueError, match=r"x\.ndim is 0.* Reshape x"):
            function(x[0, 0])
    with pytest.raises(ArgumentValueError, match="origin is 2"):
        stencil.correlate1d(x, np.ones(3), origin=2)
    with pytest.raises(ArgumentTypeError, match="x has the dtype complex128"):
        stencil.convolve(x.astype(complex), np.ones((3, 3)))
    with pytest.raises(ArgumentValueError, match=r"sigma is \(1, 2, 3\)\. It has 3 values"):
        stencil.gaussian_filter(x, (1, 2, 3))
    for sigma in (-1.0, np.nan, np.inf):
        with pytest.raises(ArgumentValueError, match="sigma is"):
            stencil.gaussian_filter(x, sigma)
    for size in (0, (3, 3, 3), 2.5):
        with pytest.raises(ArgumentError):
            stencil.median_filter(x, size)
        with pytest.raises(ArgumentError):
            stencil.uniform_filter(x, size)
    with pytest.raises(ArgumentValueError, match=r"cval is 300\.0\. .* uint8 holds, 0 to 255"):
        stencil.median_filter(x.astype(np.uint8), mode="constant", cval=300)
    got = stencil.median_filter(x.astype(np.uint8), cval=300)
    np.testing.assert_array_equal(got, x)
    with pytest.raises(ArgumentError):
        stencil.correlate1d(x, np.ones(0))
    with pytest.raises(ArgumentTypeError, match="out has the dtype float32"):
        stencil.laplace(x, out=np.ones((4, 5), np.float32))


@pytest.mark.parametrize(
    "name",
    full_beyond(["gaussian_filter", "uniform_filter", "sobel", "prewitt"], ["sobel"]),
)
def test_a_mode_for_each_axis(call, rng, name):
    x = random_array(rng, (7, 5, 9), "float64")
    given = {"sigma": 1.5} if name == "gaussian_filter" else {}
    for modes in (("nearest", "wrap", "mirror"), ("constant", "reflect", "constant")):
        exact = getattr(ndimage, name)(x, mode=modes, cval=2.0, **given)
        for _ in range(2):
            got = call(getattr(stencil, name), x, mode=modes, cval=2.0, **given)
            np.testing.assert_allclose(got, exact, 1e-12, 1e-12)
    with pytest.raises(ArgumentValueError, match="mode is"):
        call(getattr(stencil, name), x, mode=("wrap", "wrap"), **given)
