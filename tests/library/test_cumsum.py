"""cumsum against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels.reduce.chunks import BLOCK
from stdlib_kernels.scan import cumsum
from stdlib_kernels.scan.prefix_sum import ITEMS, MAX_CHUNKS, TILE
from tests.support.arrays import poisoned, random_array, strided
from tests.support.extent import QUICK_DTYPES, examples, full_beyond

EXACT = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIZES = [0, 1, 2, 255, 257, TILE - 1, TILE, TILE + 1, 3 * TILE + 5, 100_003]


def assert_close_cumsum(got: np.ndarray, x: np.ndarray) -> None:
    """Each prefix is rounded once a tile of its chunk and once a level of each tree."""
    assert got.dtype == x.dtype
    assert got.shape == (x.size,)
    flat = x.reshape(-1).astype(np.longdouble)
    tiles = -(-x.size // (TILE * MAX_CHUNKS))
    steps = 2 * tiles * ITEMS + 4 * ITEMS + 4 * math.log2(BLOCK) + TILE / BLOCK
    bound = steps * np.finfo(x.dtype).eps * np.cumsum(np.abs(flat))
    error = np.abs(got.astype(np.longdouble) - np.cumsum(flat))
    assert np.all(error <= bound), float(np.max(error - bound))


@pytest.mark.parametrize("dtype", full_beyond(EXACT, QUICK_DTYPES))
def test_integers_are_exact(call, rng, dtype):
    for size in SIZES:
        x = random_array(rng, size, dtype)
        expected = np.cumsum(x)
        got = call(cumsum, x)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected, err_msg=f"{size} {dtype}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floats_within_rounding(call, rng, dtype):
    for size in SIZES:
        x = random_array(rng, size, dtype)
        assert_close_cumsum(call(cumsum, x), x)


def test_several_tiles_a_chunk(call, rng):
    x = random_array(rng, 2 * TILE * MAX_CHUNKS + 777, "int32")
    np.testing.assert_array_equal(call(cumsum, x), np.cumsum(x))


def test_special_values_reach_no_earlier_element(call, rng):
    x = random_array(rng, 2 * TILE + 9, "float32")
    x[TILE + 3] = np.nan
    got = call(cumsum, x)
    assert not np.isnan(got[: TILE + 3]).any()
    assert np.isnan(got[TILE + 3 :]).all()
    zeros = np.full(TILE + 1, -0.0)
    assert np.signbit(call(cumsum, zeros)).all()
    with np.errstate(invalid="ignore"):
        infinite = np.array([1, np.inf, 2, -np.inf, 3])
        np.testing.assert_array_equal(call(cumsum, infinite), np.cumsum(infinite))


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.lists(st.integers(0, 37), min_size=1, max_size=3), step=st.sampled_from([2, -2]))
def test_any_shape_and_layout(call, rng, shape, step):
    x = strided(random_array(rng, shape, "int64"), (step,) * len(shape))
    np.testing.assert_array_equal(call(cumsum, x), np.cumsum(x))
    np.testing.assert_array_equal(call(cumsum, x.T), np.cumsum(x.T))


def test_out_may_be_the_input(target, rng):
    x = random_array(rng, 5000, "int64")
    expected = np.cumsum(x)
    out = poisoned(5000, np.int64)
    assert cumsum(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    device = kd.to_device(x)
    assert cumsum(device, out=device) is device
    np.testing.assert_array_equal(device.copy_to_host(), expected)
    cumsum(x, out=x)
    np.testing.assert_array_equal(x, expected)


def test_refusals(target):
    with pytest.raises(ArgumentTypeError, match="x has the dtype complex128"):
        cumsum(np.ones(3, complex))
    with pytest.raises(ArgumentTypeError, match="out has the dtype int32"):
        cumsum(np.ones(3, np.int32), out=np.zeros(3, np.int32))
    with pytest.raises(ArgumentValueError, match=r"out has the shape \(4,\)"):
        cumsum(np.ones(3), out=np.zeros(4))


@pytest.mark.parametrize(
    ("dtype", "advised"), [("float16", "float32"), ("bfloat16", "float32"), (">i4", "int32")]
)
def test_the_dtype_that_is_advised_holds_the_elements(dtype, advised):
    x = np.ones(3, getattr(kd, dtype, dtype))
    with pytest.raises(kd.ArgumentTypeError, match=rf"x\.astype\(np\.{advised}\)"):
        cumsum(x)
    assert cumsum(x.astype(advised)).tolist() == [1, 2, 3]
