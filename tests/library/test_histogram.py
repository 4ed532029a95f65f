"""Histograms against NumPy's, over dtypes, edges, weights and layouts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels.histogram import bincount, histogram, histogram2d
from tests.support.arrays import random_array, strided
from tests.support.extent import IS_QUICK, examples, full_beyond, sample

DTYPES = ["bool", "int8", "int32", "int64", "uint16", "uint64", "float16", "float32", "float64"]


@pytest.fixture
def pair(to_kind):
    """Function that calls on arrays of one kind, and returns results as NumPy arrays."""

    def call(function, *args, **named):
        convert = lambda a: to_kind(a) if isinstance(a, np.ndarray) else a
        named = {name: convert(each) for name, each in named.items()}
        got = function(*map(convert, args), **named)
        kind = kd.DeviceArray if to_kind is kd.to_device else np.ndarray
        assert all(isinstance(each, kind) for each in got)
        return [e.copy_to_host() if isinstance(e, kd.DeviceArray) else e for e in got]

    return call


def _weights_of(named):
    """Return weights in which NumPy adds up, for it does so in their own dtype."""
    return {"weights": named["weights"].astype(np.float64)} if "weights" in named else {}


def check(pair, x, bins, **named):
    """Hold that a histogram is NumPy's; float16 is counted exactly, between NumPy's edges of it."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            exact, exact_edges = np.histogram(x, bins, **{**named, **_weights_of(named)})
            if x.dtype == np.float16:
                wide, between = x.astype(np.float32), {**named, **_weights_of(named), "range": None}
                exact, _ = np.histogram(wide, exact_edges, **between)
        except ValueError:
            with pytest.raises(ArgumentValueError, match="narrower than"):
                pair(histogram, x, bins, **named)
            return
    hist, edges = pair(histogram, x, bins, **named)
    label = f"{x.dtype} {x.shape} {bins} {named.keys()}"
    assert edges.dtype == exact_edges.dtype, label
    np.testing.assert_array_equal(edges, exact_edges, err_msg=label)
    if named.get("weights") is None and not named.get("density"):
        assert hist.dtype == np.int64
        np.testing.assert_array_equal(hist, exact, err_msg=label)
    else:
        assert hist.dtype == np.float64
        np.testing.assert_allclose(hist, exact, rtol=1e-9, atol=1e-9, err_msg=label)


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
@settings(max_examples=examples(25, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_even_bins(pair, rng, dtype, data):
    shape = data.draw(st.lists(st.sampled_from([0, 1, 3, 40]), min_size=1, max_size=3))
    x = strided(
        random_array(rng, shape, dtype), tuple(data.draw(st.sampled_from([1, -2])) for _ in shape)
    )
    bins = data.draw(st.sampled_from([1, 10, 256, 1000]))
    named = {}
    if data.draw(st.booleans()):
        named["range"] = data.draw(st.sampled_from([(0, 1), (-0.5, 0.75), (-3.0, 3.0), (2, 2)]))
    check(pair, x, bins, **named)


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["int32"]))
@settings(max_examples=examples(25, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_given_edges(pair, rng, dtype, data):
    x = random_array(rng, data.draw(st.sampled_from([0, 1, 500])), dtype)
    edges = sorted(data.draw(st.lists(st.integers(-3, 3).map(lambda n: n / 2), min_size=2)))
    if x.dtype.kind in "iu":
        x = (x.astype(np.int64) % 7 - (3 if x.dtype.kind == "i" else 0)).astype(dtype)
    check(pair, x, np.array(edges))
    check(pair, x, edges)


def test_edges_hold_what_lies_on_them(pair):
    """Elements on edges and one step beside them, where a quotient is off by a rounding."""
    for bins in (49,) if IS_QUICK else (3, 7, 49, 1000):
        for dtype in ("float32",) if IS_QUICK else ("float32", "float64"):
            _, edges = np.histogram(np.zeros(1, dtype), bins, (0, 1))
            edges = edges.astype(dtype)
            beside = [np.nextafter(edges, np.array(s, dtype)) for s in (-9, 9)]
            check(pair, np.concatenate([edges, *beside]), bins, range=(0, 1))
            x = np.concatenate([edges, *beside])
            check(pair, x[(x >= 0) & (x <= 1)], bins)


@pytest.mark.full
def test_no_elements(pair):
    for dtype in ("float32", "float64", "int8"):
        check(pair, np.empty(0, dtype), 10)
        check(pair, np.empty((0, 3), dtype), [0, 1, 2])


@pytest.mark.full
def test_special_values(pair):
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1, 2, np.nan])
    check(pair, x, 4, range=(-1, 2))
    check(pair, x, np.array([-np.inf, 0, 1, np.inf]))
    with pytest.raises(ArgumentValueError, match="the range is nan"):
        pair(histogram, x, 4)


@pytest.mark.parametrize("weights", full_beyond(["bool", "int16", "float16", "float64"], []))
def test_weights_and_density(pair, rng, weights):
    x = random_array(rng, (30, 50), "float64")
    w = random_array(rng, (30, 50), weights)
    for density in (False, True):
        check(pair, x, 20, weights=w, density=density)
        check(pair, x, np.linspace(-2, 2, 9000), density=density)
        check(pair, x, 5, density=density)


@pytest.mark.parametrize("bins", full_beyond([200, 5000, 70_000], [200]))
def test_many_elements_and_bins(pair, rng, bins):
    x = random_array(rng, 300_001, "float32")
    check(pair, x, bins)
    check(pair, x, np.sort(random_array(rng, bins, "float32")))


@pytest.mark.parametrize(
    "dtype", full_beyond(["bool", "int8", "uint8", "int32", "int64", "uint64"], ["uint64"])
)
def test_bincount(call, rng, dtype):
    for size in (1000,) if IS_QUICK else (0, 1, 1000, 100_003):
        x = random_array(rng, size, dtype)
        x = np.abs(x // 2) if x.dtype.kind == "i" else x
        x = x % np.array(300, x.dtype) if x.dtype.itemsize > 1 else x
        # Earlier versions of NumPy refuse uint64.
        exact = x.astype(np.int64)
        got = call(bincount, x)
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, np.bincount(exact))
        got = call(bincount, x[::-2], minlength=333)
        np.testing.assert_array_equal(got, np.bincount(exact[::-2], minlength=333))
        weights = random_array(rng, size, "float32")
        got = call(lambda a, w: bincount(a, w), x, weights)
        expected = np.bincount(exact, weights)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.full
def test_bincount_of_more_counters_than_a_block_has(call, rng):
    x = rng.integers(0, 100_000, 300_000)
    np.testing.assert_array_equal(call(bincount, x), np.bincount(x))


BINS_OF_PAIRS = {
    "one number": 5,
    "two numbers": [3, 4],
    "edges": [np.array([-1.0, 0, 2]), np.array([-2.0, 2])],
}


@pytest.mark.parametrize("form", full_beyond(BINS_OF_PAIRS, []))
def test_histograms_of_pairs(pair, rng, form):
    bins = BINS_OF_PAIRS[form]
    x, y = random_array(rng, 2000, "float64"), random_array(rng, 4000, "float32")[::-2]
    w = random_array(rng, 2000, "float64")
    x[7] = y[9] = np.nan
    for named in ({}, {"density": True}, {"weights": w}):
        asked = {"range": [(-1, 1), (-2, 2)], **named}
        for each, exact in zip(
            pair(histogram2d, x, y, bins, **asked),
            np.histogram2d(x, y, bins, **asked),
            strict=True,
        ):
            assert each.dtype == np.float64
            np.testing.assert_allclose(each, exact, rtol=1e-9, atol=1e-12)


PAIRS = [("float32", "float32"), ("float32", "int8"), ("bool", "int64"), ("float16", "float32"),
         ("float16", "float16"), ("float32", "float64")]  # fmt: skip


@pytest.mark.parametrize("dtypes", full_beyond(PAIRS, [("float16", "float32")]))
def test_edges_of_pairs_have_numpys_dtype(pair, rng, dtypes):
    x, y = (random_array(rng, 501, each) for each in dtypes)
    x, y = (np.nan_to_num(each, posinf=1, neginf=-1) for each in (x, y))
    for named in sample(({}, {"range": [(-1, 1), (-2, 2)]}, {"density": True}), 2):
        found = pair(histogram2d, x, y, [7, 5], **named)
        exact = np.histogram2d(x, y, [7, 5], **named)
        for each, other in zip(found, exact, strict=True):
            assert each.dtype == other.dtype, (dtypes, named)
        for each, other in zip(found[1:], exact[1:], strict=True):
            np.testing.assert_array_equal(each, other, err_msg=f"{dtypes} {named}")
        np.testing.assert_allclose(found[0], exact[0], rtol=1e-6, err_msg=f"{dtypes} {named}")
    empty = histogram2d(x[:0], y[:0], 3)
    assert [each.dtype for each in empty] == [np.float64] * 3


def test_weights_of_no_elements_count_as_integers(call):
    for weights in (None, np.ones(0)):
        got = call(bincount, np.zeros(0, int), weights, 3)
        exact = np.bincount(np.zeros(0, int), weights, 3)
        assert got.dtype == exact.dtype
        np.testing.assert_array_equal(got, exact)
        given = None if weights is None else []
        np.testing.assert_array_equal(
            bincount([], given, 3), np.bincount([], given, 3), strict=True
        )


def test_refusals(target):
    with pytest.raises(ArgumentValueError, match="an element of x is negative"):
        bincount(np.array([3, -1]))
    with pytest.raises(ArgumentTypeError, match="x has the dtype float64"):
        bincount(np.ones(3))
    with pytest.raises(ArgumentValueError, match="x has 2 dimensions"):
        bincount(np.ones((2, 2)))
    with pytest.raises(ArgumentValueError, match="a pair of numbers"):
        histogram(np.ones(3), 3, (1, 2, 3))
    with pytest.raises(ArgumentValueError, match=r"an element of x is 2\*\*63 or more"):
        bincount(np.array([3, 2**63], np.uint64))
    with pytest.raises(ArgumentValueError, match="minlength is -1"):
        bincount(np.ones(3, int), minlength=-1)
    with pytest.raises(ArgumentValueError, match=r"weights has the shape \(2,\). .* x, \(3,\)"):
        bincount(np.ones(3, int), np.ones(2))
    with pytest.raises(ArgumentValueError, match="bins is 0"):
        histogram(np.ones(3), 0)
    with pytest.raises(ArgumentValueError, match=r"exact up to 2\*\*53"):
        histogram(np.full(3, 2**53 + 1), np.array([0, 2**53, 2**53 + 2]))
    with pytest.raises(ArgumentValueError, match="Sort the edges"):
        histogram(np.ones(3), [1, 0])
    with pytest.raises(ArgumentValueError, match=r"bins is \[1\].*pass an int, the number of bins"):
        histogram(np.ones(3), [1])
    with pytest.raises(ArgumentTypeError, match="bins is 'auto'"):
        histogram(np.ones(3), "auto")
    with pytest.raises(ArgumentValueError, match=r"range is \(1.0, 0.0\)"):
        histogram(np.ones(3), 3, (1, 0))
    with pytest.raises(ArgumentValueError, match=r"y has the shape \(2,\)"):
        histogram2d(np.ones(3), np.ones(2))


def test_a_range_as_wide_as_the_dtype(pair):
    """The width itself is no number: places are looked for among the edges."""
    x = np.array([-3e38, 0, 1, 3e38, 5, np.nan], np.float32)
    hist, edges = pair(histogram, x, 4, (-3e38, 3e38))
    assert hist.tolist() == [1, 0, 3, 1]
    assert np.isfinite(edges).all()
