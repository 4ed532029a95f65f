"""Scans against NumPy's, over axes, dtypes and layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels import scan
from stdlib_kernels.scan import calls
from tests.support.arrays import poisoned, random_array, strided
from tests.support.extent import IS_QUICK, examples, full_beyond, sample

EXACT = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES = [*EXACT, "float16", "float32", "float64"]


class Case(NamedTuple):
    """A scan, NumPy's of the same meaning, and what stands before the first element."""

    ours: Callable[..., Any]
    numpys: Callable[..., Any]
    first: Callable[[np.dtype], Any]


def _extreme(dtype: np.dtype, *, least: bool) -> Any:
    if dtype.kind == "b":
        return not least
    if dtype.kind == "f":
        return -np.inf if least else np.inf
    return np.iinfo(dtype).min if least else np.iinfo(dtype).max


CASES = {
    "cumsum": Case(scan.cumsum, np.cumsum, lambda dtype: 0),
    "cumprod": Case(scan.cumprod, np.cumprod, lambda dtype: 1),
    "cummax": Case(scan.cummax, np.maximum.accumulate, lambda dtype: _extreme(dtype, least=True)),
    "cummin": Case(scan.cummin, np.minimum.accumulate, lambda dtype: _extreme(dtype, least=False)),
}


def expected(name: str, x: np.ndarray, axis: Any, *, exclusive: bool, reverse: bool) -> Any:
    """Return NumPy's scan, of floats in float64, and its dtype."""
    case = CASES[name]
    if axis is None:
        x, axis = x.reshape(-1), 0
    turned = np.flip(x, axis) if reverse else x
    with np.errstate(all="ignore"):
        dtype = case.numpys(turned[:0] if x.ndim == 1 else turned, axis=axis).dtype
        wide = turned.astype(np.float64) if x.dtype.kind == "f" else turned
        found = case.numpys(wide, axis=axis)
    if exclusive:
        found = np.roll(found, 1, axis)
        found[(slice(None),) * (axis % x.ndim) + (slice(0, 1),)] = case.first(found.dtype)
    return np.flip(found, axis) if reverse else found, dtype


def compare(call: Any, name: str, x: np.ndarray, axis: Any, **asked: bool) -> None:
    """Hold that one scan is NumPy's: exactly, or of floats within a rounding each step."""
    asked = {"exclusive": False, "reverse": False, **asked}
    exact, dtype = expected(name, x, axis, **asked)
    got = call(CASES[name].ours, x, axis=axis, **asked)
    label = f"{name} {x.dtype} {x.shape} {x.strides} axis={axis} {asked}"
    assert got.dtype == dtype, label
    assert got.shape == exact.shape, label
    if dtype.kind != "f" or name in ("cummax", "cummin"):
        np.testing.assert_array_equal(got, exact.astype(dtype), err_msg=label)
        return
    steps = (x.size if axis is None else x.shape[axis]) + 8
    scale = np.abs(exact)
    if name == "cumsum":
        scale, _ = expected(name, np.abs(x), axis, **asked)
    work = np.finfo(np.float32 if dtype.itemsize == 2 else dtype)
    with np.errstate(all="ignore"):
        bound = 2 * steps * work.eps * scale + np.finfo(dtype).eps * np.abs(exact)
        bound = bound + steps * work.tiny + np.finfo(dtype).tiny
        near = np.abs(got - exact) <= bound
    large = np.abs(exact) >= np.finfo(dtype).max
    assert np.all(near | large), label


@st.composite
def layouts(draw: Any) -> Any:
    """Draw a shape, a step in memory along each axis, and the axis."""
    ndim = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 7)) for _ in range(ndim)]
    shape[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([0, 1, 33, 64, 257, 1500]))
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in range(ndim)]
    axis = draw(st.one_of(st.none(), st.integers(-ndim, ndim - 1)))
    return tuple(shape), tuple(steps), axis


QUICK = [("cumsum", "float32")]


@pytest.mark.parametrize(
    ("name", "dtype"),
    full_beyond(
        [pytest.param(name, dtype) for name in CASES for dtype in DTYPES],
        [pytest.param(*pair) for pair in QUICK],
    ),
)
@settings(max_examples=examples(20, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts(), exclusive=st.booleans(), reverse=st.booleans())
def test_any_axis_and_layout(call, rng, name, dtype, drawn, exclusive, reverse):
    shape, steps, axis = drawn
    x = random_array(rng, shape, dtype)
    if name == "cumprod" and x.dtype.kind == "f":
        # Products of parts stay in range, too: one that overflows gives inf where NumPy's, of all
        # elements before, does not.
        x = np.exp(x / max(8, np.sqrt(x.size) / 4)).astype(dtype)
    x = strided(x, steps)
    compare(call, name, x, axis, exclusive=exclusive, reverse=reverse)
    compare(call, name, x.T, axis, exclusive=exclusive, reverse=reverse)


@pytest.mark.parametrize("name", full_beyond(CASES, ["cummax"]))
@pytest.mark.parametrize("dtype", full_beyond(["complex64", "complex128"], ["complex64"]))
@pytest.mark.parametrize("size", full_beyond([5, 300, calls.LONG_ROW + 100], [300]))
def test_complex_numbers(call, rng, name, dtype, size):
    real = np.empty(0, dtype).real.dtype
    parts = [np.round(rng.standard_normal((3, size)) * 3).astype(real) for _ in range(2)]
    x = (parts[0] + 1j * parts[1]).astype(dtype)
    if name == "cumprod":
        x = np.exp(1j * parts[0]).astype(dtype)
    ours, numpys = CASES[name].ours, CASES[name].numpys
    for view in sample((x[:, ::-1], x, x.T), 2):
        for axis in (0, 1):
            exact = numpys(view.astype(complex), axis=axis)
            got = call(ours, view, axis)
            assert got.dtype == view.dtype
            np.testing.assert_allclose(got, exact, size * 1e-7, size * 1e-7)
            turned = np.flip(numpys(np.flip(view, axis).astype(complex), axis=axis), axis)
            got = call(ours, view, axis, reverse=True)
            np.testing.assert_allclose(got, turned, size * 1e-7, size * 1e-7)
    assert call(scan.cumsum, parts[0], 1, dtype=dtype).dtype == dtype


@pytest.mark.parametrize("shape", [(1, 1), (3, 200), (40, 100), (2, 5000)])
def test_first_products_of_complex_numbers_are_the_elements(call, rng, shape):
    """No complex number is an identity of products: ``(inf - 4j) * 1`` has a NaN."""
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0, -4.0, 2.5])
    x = rng.choice(special, shape).astype(complex)
    x.imag = rng.choice(special, shape)
    for axis in (0, 1):
        got = call(scan.cumprod, x, axis)
        for part in ("real", "imag"):
            first, element = (np.take(getattr(each, part), 0, axis) for each in (got, x))
            np.testing.assert_array_equal(first, element)
            np.testing.assert_array_equal(np.signbit(first), np.signbit(element))


def bits(x: np.ndarray) -> np.ndarray:
    """Return real numbers as integers, with one NaN."""
    parts = np.ascontiguousarray(x).view(x.real.dtype)
    return np.where(np.isnan(parts), np.nan, parts).view(f"u{parts.itemsize}")


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
@pytest.mark.parametrize("dtype", full_beyond(["float32", "complex128"], ["complex128"]))
@pytest.mark.parametrize(
    "shape",
    full_beyond([(5,), (2, 3), (2, 300), (70, 4100), (calls.LONG_ROW + 9, 2)], [(2, 3), (2, 4100)]),
)
def test_exclusive_results_are_the_inclusive_ones_before(call, name, dtype, shape):
    """Not combined with 0 or 1: 0 + -0 is not -0, and (inf - 4j) * 1 is (inf + nanj)."""
    is_complex, axis = dtype.startswith("c"), len(shape) - 1 if shape[0] < 100 else 0
    x = np.full(shape, complex(-0.0, -0.0) if is_complex else -0.0, dtype)
    if name == "cumprod":
        x[...] = 1
        np.moveaxis(x, axis, 0)[[0, -1]] = complex(np.inf, -4) if is_complex else -0.0
    for reverse in (False, True):
        asked = {"axis": axis, "reverse": reverse}
        found = np.moveaxis(call(CASES[name].ours, x, exclusive=True, **asked), axis, 0)
        before = np.moveaxis(call(CASES[name].ours, x, **asked), axis, 0)
        if reverse:
            found, before = found[::-1], before[::-1]
        assert (bits(found[0]) == bits(np.full_like(found[0], name == "cumprod"))).all()
        np.testing.assert_array_equal(bits(found[1:]), bits(before[:-1]))


@pytest.mark.parametrize("dtype", full_beyond(EXACT, []))
def test_chains_of_integers_are_exact(call, rng, dtype):
    x = random_array(rng, 3 * calls.LONG_ROW + 777, dtype)
    compare(call, "cumsum", x, None)
    compare(call, "cumsum", x, None, exclusive=True, reverse=True)


@pytest.mark.parametrize("name", full_beyond(CASES, ["cummin"]))
@pytest.mark.parametrize("dtype", full_beyond(["int16", "int64", "float32"], ["float32"]))
def test_chains(call, rng, name, dtype):
    x = random_array(rng, (2, calls.LONG_ROW + 777), dtype)
    if name == "cumprod" and x.dtype.kind == "f":
        x = np.exp(x / 1e4).astype(dtype)
    for asked in ({}, {"exclusive": True}, {"reverse": True}):
        compare(call, name, x, 1, **asked)
    # Columns that are copied into rows first.
    compare(call, name, np.ascontiguousarray(x.T), 0)


@pytest.mark.full
def test_many_rows_of_each_length(call, rng):
    for n in (63, 64, 1024, 1025, 4097):
        for name in CASES:
            compare(call, name, random_array(rng, (70, n), "int32"), 1, exclusive=n % 2 == 0)


def test_special_values_reach_no_earlier_element(call, rng):
    n = calls.LONG_ROW + 9
    x = random_array(rng, n, "float32")
    x[n // 2] = np.nan
    for function in (scan.cumsum,) if IS_QUICK else (scan.cumsum, scan.cummax, scan.cummin):
        got = call(function, x)
        assert not np.isnan(got[: n // 2]).any()
        assert np.isnan(got[n // 2 :]).all()
    for size in (5, n):
        assert np.signbit(call(scan.cumsum, np.full(size, -0.0, np.float32))).all()
    with np.errstate(invalid="ignore"):
        infinite = np.array([1, np.inf, 2, -np.inf, 3], np.float32)
        np.testing.assert_array_equal(call(scan.cumsum, infinite), np.cumsum(infinite))


def test_four_axes_across_memory(call, rng):
    x = random_array(rng, (2, 3, 4, 5), "int16").transpose(2, 0, 3, 1)
    compare(call, "cumsum", x, 2)
    compare(call, "cumsum", x, None)


def test_device_arrays_in_any_layout(target):
    """What a quick run asks NumPy arrays alone."""
    x = np.arange(120).reshape(2, 3, 4, 5)
    device = kd.to_device(x)
    for taken, host in ((device.transpose((2, 0, 3, 1)), x.transpose(2, 0, 3, 1)), (device, x)):
        for axis in sample((None, 0, 3), 2):
            got = scan.cumsum(taken[::-1], axis, reverse=axis == 0).copy_to_host()
            turned = np.flip(host, 0)
            exact = np.flip(np.cumsum(np.flip(turned, 0), 0), 0) if axis == 0 else None
            np.testing.assert_array_equal(got, np.cumsum(turned, axis) if exact is None else exact)
    row = kd.to_device(np.arange(9))
    np.testing.assert_array_equal(scan.cumsum(row[::-2], 0).copy_to_host(), [8, 14, 18, 20, 20])


@pytest.mark.full
def test_a_sum_has_the_same_bits_at_every_launch(call, rng):
    x = random_array(rng, 2 * calls.LONG_ROW, "float32")
    np.testing.assert_array_equal(call(scan.cumsum, x), call(scan.cumsum, x))


@pytest.mark.full
def test_a_function_that_does_not_commute(call, rng):
    """Affine maps modulo 256, ``x -> a * x + b``: composed in the order of the elements."""
    x = random_array(rng, (3, 700), "uint16") | np.uint16(1)
    fast = calls.LONG_ROW + 100

    def compose(f, g):
        return (f & 255) * (g & 255) & 255 | ((f >> 8) * (g & 255) + (g >> 8) & 255) << 8

    for each in (x, np.tile(x.reshape(-1), 40)[None, :fast]):
        exact = each.copy()
        for k in range(1, each.shape[1]):
            earlier, v = exact[:, k - 1].astype(int), each[:, k].astype(int)
            exact[:, k] = compose(earlier, v)
        got = call(scan.scan, each, compose, 1, 1)
        np.testing.assert_array_equal(got, exact)


@pytest.mark.full
def test_dtype(call, rng):
    x = random_array(rng, 100, "int16")
    for dtype in ("int16", "float32", "float64"):
        got = call(scan.cumsum, x, dtype=dtype)
        assert got.dtype == dtype
        np.testing.assert_allclose(got, np.cumsum(x, dtype=dtype), rtol=1e-4)


def test_out_may_be_the_input(target, rng):
    x = random_array(rng, 5000, "int64")
    expected = np.cumsum(x)
    out = poisoned(5000, np.int64)
    assert scan.cumsum(x, out=out) is out
    np.testing.assert_array_equal(out, expected)
    gaps = poisoned(10_000, np.int64)[::2]
    assert scan.cumsum(x, out=gaps) is gaps
    np.testing.assert_array_equal(gaps, expected)
    device = kd.to_device(x)
    assert scan.cumsum(device, out=device) is device
    np.testing.assert_array_equal(device.copy_to_host(), expected)
    scan.cumsum(x, out=x)
    np.testing.assert_array_equal(x, expected)


def test_refusals(target):
    with pytest.raises(ArgumentTypeError, match="x has the dtype <U1"):
        scan.cumsum(np.ones(3, "U1"))
    with pytest.raises(ArgumentTypeError, match="out has the dtype int32"):
        scan.cumsum(np.ones(3, np.int32), out=np.zeros(3, np.int32))
    with pytest.raises(ArgumentValueError, match=r"out has the shape \(4,\)"):
        scan.cumsum(np.ones(3), out=np.zeros(4))
    with pytest.raises(ArgumentValueError, match="axis 1 is not one of an array of 1 dim"):
        scan.cummax(np.ones(3), 1)
    with pytest.raises(ArgumentTypeError, match="dtype is bool"):
        scan.cumprod(np.ones(3), dtype=bool)
    with pytest.raises(ArgumentTypeError, match="exclusive is 1"):
        scan.cumsum(np.ones(3), exclusive=1)


def test_the_dtype_that_is_advised_holds_the_elements():
    x = np.ones(3, ">i4")
    with pytest.raises(kd.ArgumentTypeError, match=r"x\.astype\(np\.int32\)"):
        scan.cumsum(x)
    assert scan.cumsum(x.astype("int32")).tolist() == [1, 2, 3]
