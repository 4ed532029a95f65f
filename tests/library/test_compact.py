"""Compactions against NumPy's, over dtypes, axes and layouts."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels.compact import compress, flatnonzero, nonzero, partition, run_length, unique
from stdlib_kernels.sort.rows import MAX_WIDTH
from tests.support.arrays import assert_same_bits, poisoned, random_array, strided
from tests.support.extent import IS_QUICK, examples, full_beyond

DTYPES = ["bool", "int8", "int64", "uint16", "float16", "float32", "float64", "complex64"]
#: Around the part of a block on a host, and on a GPU, and beyond both.
SIZES = [0, 1, 255, 4096, 4097, 50_001]


@pytest.fixture
def several(to_kind):
    """Function that calls on arrays of one kind, and returns several results as NumPy arrays."""

    def call(function, *args, **named):
        got = function(*(to_kind(a) if isinstance(a, np.ndarray) else a for a in args), **named)
        arrays = [each for each in got if not isinstance(each, int)]
        kind = kd.DeviceArray if to_kind is kd.to_device else np.ndarray
        assert all(isinstance(each, kind) for each in arrays)
        return [e.copy_to_host() if isinstance(e, kd.DeviceArray) else e for e in got]

    return call


def few_values(rng, shape, dtype):
    """Return random values with zeros and repetitions."""
    x = random_array(rng, shape, dtype)
    if x.dtype.kind in "iu":
        return x % np.array(3, dtype)
    return np.round(x).astype(dtype) if x.dtype.kind in "fc" else x


@st.composite
def layouts(draw):
    """Draw a shape, a step in memory along each axis, and an axis."""
    ndim = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 6)) for _ in range(ndim)]
    shape[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([0, 1, 33, 257]))
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in range(ndim)]
    return tuple(shape), tuple(steps), draw(st.integers(-ndim, ndim - 1))


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
@settings(max_examples=examples(10, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts())
def test_any_layout(call, several, rng, dtype, drawn):
    shape, steps, axis = drawn
    x = strided(few_values(rng, shape, dtype), steps)
    condition = rng.integers(0, 2, max(0, x.shape[axis] - 1)).astype(bool)
    got = call(lambda c, v: compress(c, v, axis), condition, x)
    assert_same_bits(got, np.compress(condition, x, axis), f"{x.shape} {x.strides} {axis}")
    flags = rng.integers(0, 2, x.size).astype(np.int8)
    assert_same_bits(call(compress, flags, x), np.compress(flags, x), "flattened")
    longer = np.concatenate([flags, np.zeros(3, np.int8)])
    assert_same_bits(call(compress, longer, x), np.compress(flags, x), "a longer condition")
    np.testing.assert_array_equal(call(flatnonzero, x), np.flatnonzero(x))
    for got, exact in zip(several(nonzero, x), np.nonzero(x), strict=True):
        assert got.dtype == np.int64
        np.testing.assert_array_equal(got, exact)
    condition = x != 0
    elements, count = several(partition, condition, x)
    assert count == np.count_nonzero(x)
    exact = np.concatenate([x[condition], x[~condition]])
    assert_same_bits(elements, exact, "partition")


@pytest.mark.parametrize("size", full_beyond(SIZES, []))
def test_sizes_and_densities(call, several, rng, size):
    x = random_array(rng, size, "int32")
    for density in (0, 0.01, 0.5, 1):
        flags = rng.random(size) < density
        np.testing.assert_array_equal(call(compress, flags, x), x[flags])
        elements, count = several(partition, flags, x)
        np.testing.assert_array_equal(elements, np.concatenate([x[flags], x[~flags]]))
        assert count == flags.sum()


def exact_runs(x):
    """Return values and lengths of runs, one element after the other."""
    values, lengths = [], []
    for v in x.reshape(-1):
        if values and (v == values[-1] or (v != v and values[-1] != values[-1])):
            lengths[-1] += 1
        else:
            values.append(v)
            lengths.append(1)
    return np.array(values, x.dtype), np.array(lengths, np.int64)


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, []))
def test_runs(several, rng, dtype):
    for shape in ((0,), (1,), (9, 70), (5000,)):
        x = few_values(rng, shape, dtype)
        if x.dtype.kind == "f":
            x[rng.random(shape) < 0.3] = np.nan
        values, lengths = several(run_length, x.T)
        exact_values, exact_lengths = exact_runs(x.T)
        np.testing.assert_array_equal(values, exact_values)
        np.testing.assert_array_equal(lengths, exact_lengths)
        assert values.dtype == x.dtype


@pytest.mark.parametrize(
    "dtype", full_beyond([each for each in DTYPES if each != "complex64"], ["float32"])
)
def test_unique(call, several, rng, dtype):
    for size in (
        (0, 300, 2 * MAX_WIDTH + 5)
        if IS_QUICK
        else (0, 1, 300, MAX_WIDTH, MAX_WIDTH + 1, 9 * MAX_WIDTH + 5)
    ):
        for x in (few_values(rng, size, dtype), random_array(rng, size, dtype)):
            if x.dtype.kind == "f":
                x[::7] = np.nan
                x[1::70] = -np.inf
            # NumPy 2.4 leaves thousands of float16 with NaN unsorted where it has AVX-512 for them.
            wide = x.astype(np.float32) if x.dtype == np.float16 else x
            exact, exact_counts = np.unique(wide, return_counts=True)
            np.testing.assert_array_equal(call(unique, x), exact)
            values, counts = several(unique, x, return_counts=True)
            np.testing.assert_array_equal(values, exact)
            np.testing.assert_array_equal(counts, exact_counts)


@pytest.mark.full
def test_special_values(call):
    x = np.array([np.nan, 0.0, -0.0, np.inf, -np.inf, 5e-324])
    assert call(flatnonzero, x).tolist() == [0, 3, 4, 5]
    assert call(compress, x, x).size == 4


def test_out(target, rng):
    x = random_array(rng, (20, 30), "float32")
    condition = np.arange(20) % 3 == 0
    exact = np.compress(condition, x, 0)
    out = poisoned(exact.shape, np.float32)
    assert compress(condition, x, 0, out=out) is out
    np.testing.assert_array_equal(out, exact)
    device = kd.to_device(poisoned(exact.shape, np.float32))
    assert compress(kd.to_device(condition), kd.to_device(x), 0, out=device) is device
    np.testing.assert_array_equal(device.copy_to_host(), exact)


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(ArgumentValueError, match="condition selects elements after the last of 2"):
        compress(np.ones(3), x, 0)
    with pytest.raises(ArgumentValueError, match="condition has 2 dimensions"):
        compress(x, x)
    with pytest.raises(ArgumentValueError, match="axis 2 is not one"):
        compress(np.ones(2), x, 2)
    with pytest.raises(ArgumentValueError, match=r"out has the shape \(3,\)"):
        compress(np.ones(2), x, 0, out=np.ones(3))
    with pytest.raises(ArgumentValueError, match="x has no axes"):
        nonzero(np.array(3))
    with pytest.raises(ArgumentValueError, match=r"condition has the shape \(2,\)"):
        partition(np.ones(2), x)
    with pytest.raises(ArgumentTypeError, match="x has the dtype <U1"):
        unique(np.array(["a"]))


@pytest.mark.parametrize(
    "dtype", full_beyond(["bool", "int8", "float16", "float64", "complex64"], ["bool", "float16"])
)
def test_places_of_any_dtype_warn_of_nothing(call, rng, dtype):
    x = (rng.random(100) > 0.5).astype(dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(call(flatnonzero, x), np.flatnonzero(x))


@pytest.mark.parametrize("dtype", full_beyond(["bool", "int8", "float32", "float64"], ["float32"]))
@settings(max_examples=examples(15), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts(), flags=st.tuples(*[st.booleans()] * 3), turned=st.booleans())
def test_unique_with_all_that_is_asked_for(to_kind, rng, dtype, drawn, flags, turned):
    shape, steps, axis = drawn
    x = strided(few_values(rng, shape, dtype), steps)
    if dtype.startswith("float"):
        x[np.signbit(x) & (x == 0)] = 0
    named = dict(zip(("return_index", "return_inverse", "return_counts"), flags, strict=True))
    for along in (None, axis):
        got, exact = unique(to_kind(x), axis=along, **named), np.unique(x, axis=along, **named)
        assert isinstance(got, tuple) is isinstance(exact, tuple)
        pairs = zip(*((e if isinstance(e, tuple) else (e,)) for e in (got, exact)), strict=True)
        for ours, numpys in pairs:
            found = ours.copy_to_host() if isinstance(ours, kd.DeviceArray) else ours
            assert found.dtype == numpys.dtype
            assert found.shape == numpys.shape
            np.testing.assert_array_equal(found, numpys, f"{shape} {along} {named}")


def test_unique_of_nan_and_zeros(several, call):
    x = np.array([np.nan, 0.0, -0.0, np.nan, 1.0, np.nan])
    values, index, inverse, counts = several(
        unique, x, return_index=True, return_inverse=True, return_counts=True
    )
    assert values.tolist()[:2] == [0.0, 1.0]
    assert np.isnan(values[2])
    assert (index.tolist(), counts.tolist()) == ([1, 4, 0], [2, 1, 3])
    assert inverse.tolist() == [2, 0, 0, 2, 1, 2]
    assert call(unique, x, equal_nan=False).size == 5
    rows = np.array([[1, np.nan], [0.0, -0.0], [1, np.nan], [-0.0, 0.0]])
    assert call(unique, rows, axis=0).shape == np.unique(rows, axis=0).shape == (3, 2)
    with pytest.raises(ArgumentValueError, match="axis 2"):
        unique(rows, axis=2)
    with pytest.raises(ArgumentTypeError, match="return_index"):
        unique(rows, return_index=1)


def test_slices_of_a_vector_are_elements(call):
    x = np.array([np.nan, 2.0, np.nan, 1.0])
    for axis in (None, 0, -1):
        np.testing.assert_array_equal(call(unique, x, axis=axis), [1.0, 2.0, np.nan])
        assert call(unique, x, axis=axis, equal_nan=False).size == 4
