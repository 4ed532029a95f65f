"""Intrinsics of numbers outside of kernels, against whole numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from tests.support.scalars import fused

_SINGLE, _DOUBLE = st.floats(width=32), st.floats()


@settings(deadline=None)
@given(_SINGLE, _SINGLE, _SINGLE)
def test_fma_of_float32_is_rounded_once(a: float, b: float, c: float) -> None:
    _check(np.float32, a, b, c)


@settings(deadline=None)
@given(_DOUBLE, _DOUBLE, _DOUBLE)
def test_fma_of_float64_is_rounded_once(a: float, b: float, c: float) -> None:
    _check(np.float64, a, b, c)


@settings(deadline=None)
@given(_SINGLE, _SINGLE)
def test_fma_of_what_nearly_cancels(a: float, b: float) -> None:
    with np.errstate(all="ignore"):
        c = -np.float32(np.float32(a) * np.float32(b))
    _check(np.float32, a, b, float(c))


def test_an_infinite_sum_of_a_product_beyond_float64() -> None:
    assert kd.fma(-1.5e16, -1.3e292, -np.inf) == -np.inf
    assert kd.fma(1.5e16, -1.3e292, np.inf) == np.inf


def test_rounding_twice_would_be_another_number() -> None:
    a, b, c = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2**-60)
    twice = np.float32(float(a) * float(b) + float(c))
    assert kd.fma(a, b, c) != twice
    assert kd.fma(a, b, c) == fused(a, b, c, np.float32)


def test_float64_and_integers_make_float64() -> None:
    assert kd.fma(np.float32(1), np.float32(2), 3.0).dtype == np.float64
    assert kd.fma(np.float32(1), np.float32(2), 3).dtype == np.float64
    assert kd.fma(np.float32(1), np.float32(2), np.float32(3)).dtype == np.float32


@pytest.mark.parametrize(("dtype", "bits"), [("float32", "uint32"), ("float64", "int64")])
def test_bitcast(dtype: str, bits: str) -> None:
    for value in (0.0, -0.0, 1.5, math.inf, math.nan):
        number = np.dtype(dtype).type(value)
        assert kd.bitcast(number, np.dtype(bits)) == number.view(bits)
        assert kd.bitcast(number.view(bits), np.dtype(dtype)).tobytes() == number.tobytes()


@pytest.mark.parametrize("dtype", ["int32", "uint32", "int64", "uint64"])
def test_upper_half_of_a_product(dtype: str) -> None:
    kind, info = np.dtype(dtype).type, np.iinfo(dtype)
    for a in (info.min, info.max, 1, 3**19):
        for b in (info.min, info.max, 2, 7**10):
            found = kd.mulhi(kind(a), kind(b))
            assert found.dtype == kind
            assert int(found) == a * b >> info.bits


def _check(kind: type[np.floating], a: float, b: float, c: float) -> None:
    with np.errstate(all="ignore"):
        numbers = [kind(each) for each in (a, b, c)]
        found, wanted = kd.fma(*numbers), fused(*numbers, kind)
    assert found.dtype == kind
    np.testing.assert_array_equal(found, wanted)
    assert math.isnan(wanted) or math.copysign(1, found) == math.copysign(1, wanted)
