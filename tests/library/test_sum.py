"""sum against NumPy."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, ReadOnlyArrayError
from stdlib_kernels import reduce
from stdlib_kernels.reduce.arrangement import (
    BLOCK,
    LONG_ROW,
    MIN_ROW_PART,
    ROW_BLOCKS,
    SHORT_ROW,
    SINGLE_PART,
    WARP,
    WIDE_BLOCK,
)
from tests.support.arrays import random_array, strided
from tests.support.extent import examples, full_beyond, sample

EXACT = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SIZES = [0, 1, 2, 31, 63, 64, 257, LONG_ROW, MIN_ROW_PART, MIN_ROW_PART + 1]
SIZES += [SINGLE_PART, SINGLE_PART + 1, 100_003]


def assert_close_sum(got: np.generic, x: np.ndarray) -> None:
    """Each element is rounded at most once for each level and each step of a thread."""
    assert got.dtype == x.dtype
    rows = (x.size / ROW_BLOCKS + 2 * MIN_ROW_PART) / BLOCK + LONG_ROW / WARP + SHORT_ROW
    steps = rows + 2 * math.log2(BLOCK) + 2
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    scale = np.abs(x).astype(np.float64).sum()
    bound = steps * np.finfo(x.dtype).eps * scale
    assert abs(complex(got) - complex(x.astype(wide).sum())) <= bound + np.finfo(x.dtype).tiny


@pytest.mark.parametrize("dtype", full_beyond(EXACT, ["bool", "uint8"]))
def test_integers_are_exact(call, rng, dtype):
    for size in sample(SIZES, 3):
        x = random_array(rng, size, dtype)
        got = call(reduce.sum, x)
        assert got.dtype == np.sum(x).dtype
        assert got == np.sum(x), (size, dtype)


@pytest.mark.parametrize(
    "dtype", full_beyond(["float32", "float64", "complex64", "complex128"], ["float32"])
)
def test_floats_within_rounding(call, rng, dtype):
    for size in sample(SIZES[1:], 6):
        x = random_array(rng, size, dtype)
        assert_close_sum(call(reduce.sum, x), x)


@pytest.mark.full
def test_chunks_larger_than_the_smallest(call, rng):
    x = random_array(rng, MIN_ROW_PART * ROW_BLOCKS + 12_345, "float32")
    assert_close_sum(call(reduce.sum, x), x)


def in_documented_order(x: np.ndarray) -> np.float32:
    """Add up as `fold_rows` says: a thread its column, lanes of a warp in a tree, then warps."""
    if x.size < SHORT_ROW:
        return np.float32(functools.reduce(np.add, x, np.float32(0)))
    while x.size > 1:
        x = one_pass(x)
    return x[0]


def one_pass(x: np.ndarray) -> np.ndarray:
    """Return the sum of each part of a row."""
    sums = []
    block, length = BLOCK if x.size > LONG_ROW else WARP, MIN_ROW_PART
    if MIN_ROW_PART < x.size <= SINGLE_PART:
        block, length = WIDE_BLOCK, SINGLE_PART
    for first in range(0, x.size, length):
        part = x[first : first + length]
        columns = np.zeros(block, x.dtype)
        for row in range(0, part.size, block):
            elements = part[row : row + block]
            columns[: elements.size] += elements
        while columns.size > block // WARP:
            columns = columns[::2] + columns[1::2]
        sums.append(functools.reduce(np.add, columns))
    return np.array(sums)


@pytest.mark.parametrize("size", full_beyond(SIZES, [0, 31, LONG_ROW, MIN_ROW_PART + 1, 100_003]))
def test_same_bits_on_every_target(call, rng, size):
    x = random_array(rng, size, "float32")
    assert call(reduce.sum, x).tobytes() == in_documented_order(x).tobytes()


def test_special_values(call):
    with np.errstate(invalid="ignore"):
        for values in ([np.nan, 1], [np.inf, 1], [np.inf, -np.inf], [-0.0], [-0.0, -0.0], []):
            x = np.array(values, np.float64)
            np.testing.assert_array_equal(call(reduce.sum, x), np.sum(x))
            assert np.signbit(call(reduce.sum, x)) == np.signbit(np.sum(x)) or np.isnan(x).any()


@settings(max_examples=examples(25, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(shape=st.lists(st.integers(0, 37), min_size=1, max_size=3), reverse=st.booleans())
def test_any_shape_and_layout(call, rng, shape, reverse):
    x = random_array(rng, shape, "int32")
    x = strided(x, tuple(-2 if reverse else 2 for _ in shape))
    assert call(reduce.sum, x) == np.sum(x)
    assert call(reduce.sum, x.T) == np.sum(x)


def test_strided_device_arrays(target, rng):
    x = random_array(rng, (33, 70), "int64")
    device = kd.to_device(x)
    assert reduce.sum(device[::2, 1::3]).item() == x[::2, 1::3].sum()
    assert reduce.sum(device.T).item() == x.sum()


def test_out(target, rng):
    x = random_array(rng, 1000, "int16")
    out = np.full((), -1, np.int64)
    assert reduce.sum(x, out=out) is out
    assert out == x.sum()
    device_out = kd.full((), -1, np.int64)
    assert reduce.sum(kd.to_device(x), out=device_out) is device_out
    assert device_out.item() == x.sum()


def test_refusals(target):
    with pytest.raises(ArgumentTypeError, match="x is a dict"):
        reduce.sum({1: 2})
    with pytest.raises(ArgumentTypeError, match="x is a MaskedArray"):
        reduce.sum(np.ma.array([1, 2], mask=[True, False]))
    with pytest.raises(ArgumentTypeError, match="x has the dtype datetime64"):
        reduce.sum(np.ones(3, "M8[s]"))
    with pytest.raises(ArgumentTypeError, match="byte order"):
        reduce.sum(np.ones(3, ">f4"))
    with pytest.raises(ArgumentTypeError, match="out has the dtype float32"):
        reduce.sum(np.ones(3), out=np.zeros((), np.float32))
    with pytest.raises(ArgumentValueError, match=r"out has the shape \(1,\)"):
        reduce.sum(np.ones(3), out=np.zeros(1))
    with pytest.raises(ArgumentTypeError, match="out is an ndarray, and the input a DeviceArray"):
        reduce.sum(kd.to_device(np.ones(3)), out=np.zeros(()))
    locked = np.zeros(())
    locked.flags.writeable = False
    with pytest.raises(ReadOnlyArrayError, match="out is a read-only array"):
        reduce.sum(np.ones(3), out=locked)
