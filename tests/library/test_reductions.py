"""Every reduction against NumPy's, over axes, dtypes and layouts."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels import operations, reduce
from stdlib_kernels.reduce import arrangement, folding, lanes, moments
from tests.library.reductions import CASES, Case, arrays, expected, leaves_range, rounding_bound
from tests.support.arrays import poisoned, random_array
from tests.support.extent import IS_QUICK, examples, full_beyond, sample

DTYPES = [
    *["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"],
    *["float16", "float32", "float64", "complex64", "complex128"],
]
#: Of a quick run: what has kernels of its own in many layouts, and the others in one.
QUICK_LAYOUTS = {"var": "float32", "argmax": "float32"}
QUICK = {
    **{
        "sum": "int16",
        "prod": "int32",
        "mean": "float16",
        "max": "float32",
        "min": "uint8",
        "std": "complex64",
    },
    **{"any": "bool", "all": "float32", "norm": "complex64", "count_nonzero": "int16"},
    **{"argmin": "int16", "reduce": "float32"},
}
ROWS = [pytest.param(*pair) for pair in QUICK.items()]
PAIRS = [
    pytest.param(name, dtype)
    for name, case in CASES.items()
    for dtype in DTYPES
    if np.dtype(dtype).kind in case.kinds
]


def compare(call, case: Case, x: np.ndarray, axis, keepdims: bool) -> None:
    """Hold that one result is NumPy's: dtype, shape, and value within rounding."""
    if case.moderate is not None:
        case.moderate(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            narrow, exact = expected(case, x, axis, keepdims=keepdims)
        except ValueError:
            with pytest.raises(ArgumentValueError, match="has no value"):
                call(case.ours, x, axis=axis, keepdims=keepdims)
            return
        got = np.asarray(call(case.ours, x, axis=axis, keepdims=keepdims))
    exact = np.asarray(exact)
    label = f"{x.dtype} {x.shape} {x.strides} axis={axis}"
    assert got.dtype == np.asarray(narrow).dtype, label
    assert got.shape == exact.shape, label
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, exact, err_msg=label)
        return
    with np.errstate(all="ignore"):
        wide = got.astype(exact.dtype)
        error = np.abs(wide - exact)
        beyond = leaves_range(case, x, axis, exact)
        near = error <= rounding_bound(case, x, axis, exact)
    wrong = ~near & ~(np.isnan(wide) & np.isnan(exact)) & ~beyond & (wide != exact)
    assert not wrong.any(), f"{label}: {got[wrong][:4]} in the place of {exact[wrong][:4]}"


@pytest.mark.parametrize(
    ("name", "dtype"), full_beyond(PAIRS, [pytest.param(*pair) for pair in QUICK_LAYOUTS.items()])
)
@settings(max_examples=examples(20, 3), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_any_axes_and_layout(call, rng, name, dtype, data):
    case = CASES[name]
    drawn = data.draw(arrays(takes_tuples=case.takes_tuples))
    compare(call, case, drawn.fill(rng, dtype), drawn.axis, drawn.keepdims)


@pytest.mark.parametrize(("name", "dtype"), full_beyond(ROWS, ROWS[::6]))
def test_rows(call, rng, name, dtype):
    compare(call, CASES[name], random_array(rng, (3, 700), dtype), 1, keepdims=False)


#: Both forms in one pass and in several, with a part that is not whole, and what must be copied.
LARGE = [
    ((20_011,), None),
    ((3, 20_011), 1),
    ((20_011, 3), 0),
    ((1000, 40), 0),
    ((3, 700, 40), 1),
    ((30, 10, 20, 3), (0, 2)),
]


@pytest.mark.full
@pytest.mark.parametrize("name", full_beyond(["sum", "var", "argmax"], ["var"]))
def test_several_passes(call, rng, name):
    for shape, axis in sample(LARGE, 2):
        case = CASES[name]
        if case.takes_tuples or not isinstance(axis, tuple):
            compare(call, case, random_array(rng, shape, "float32"), axis, keepdims=False)


@pytest.mark.full
@pytest.mark.parametrize("name", full_beyond(CASES, ("std", "argmax", "norm")))
def test_parts_that_are_larger_than_the_smallest(call, rng, name):
    for shape, axis in [((5_000_011,), None), ((2, 2_500_003), 1), ((100_003, 40), 0)]:
        x = random_array(rng, shape, "float32")
        compare(call, CASES[name], x, axis, keepdims=False)


def test_special_values(call):
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -2.0]
    rows = np.array([[a, b, c] for a in values for b in values for c in values], np.float32)
    long = np.tile(rows, (1, 40))
    for name in ["max", "argmax"] if IS_QUICK else CASES:
        for x, axis in ((long, 1), (np.ascontiguousarray(rows.T), 0)):
            compare(call, CASES[name], x, axis, keepdims=False)


@pytest.mark.parametrize("dtype", [each for each in DTYPES if each[0] != "c"])
def test_identities_leave_every_number_unchanged(dtype):
    number = np.dtype(dtype)
    ends = (np.iinfo(number).min, np.iinfo(number).max) if number.kind in "iu" else (0, 1)
    values = [*ends, *((-np.inf, np.inf) if number.kind == "f" else ())]
    # A sum and a product of booleans are what `or` and `and` are.
    names = ("larger", "smaller") if dtype == "bool" else ("add", "multiply", "larger", "smaller")
    for op in (getattr(operations, name) for name in names):
        identity = operations.identity_of(op, number)
        assert identity.dtype == number
        for value in map(number.type, values):
            assert op(identity, value) == op(value, identity) == value


def test_the_first_of_equal_elements_counts(call):
    for function in (reduce.argmax,) if IS_QUICK else (reduce.argmax, reduce.argmin):
        x = np.zeros(70_000, np.float32)
        assert call(function, x) == 0
        x[[60_000, 33_333, 33_332]] = np.nan
        assert call(function, x) == 33_332


@pytest.mark.parametrize("far", full_beyond([1e4, -3e5], [-3e5]))
def test_variance_far_from_zero(call, rng, far):
    x = (random_array(rng, (50_000,), "float32") + np.float32(far)).reshape(2, -1)
    exact = np.var(x.astype(np.float64), axis=1, ddof=1)
    np.testing.assert_allclose(call(reduce.var, x, axis=1, ddof=1), exact, rtol=1e-5)
    np.testing.assert_allclose(call(reduce.std, x, axis=1, correction=1), np.sqrt(exact), rtol=1e-5)
    with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
        assert np.isnan(call(reduce.var, x[:1, :1], ddof=1))


@pytest.mark.full
def test_variance_where_the_first_elements_are_far_from_the_others(call, rng):
    x = random_array(rng, (3, 40_000), "float32") + np.float32(1000)
    x[:, 0], x[1, :256], x[2, ::4096] = 0, 0, 1e6
    exact = x.astype(np.float64)
    np.testing.assert_allclose(call(reduce.var, x, axis=1), exact.var(axis=1), rtol=2e-6)
    np.testing.assert_allclose(call(reduce.var, x.T, axis=0), exact.var(axis=1), rtol=2e-6)
    columns = np.ascontiguousarray(x.T)
    np.testing.assert_allclose(call(reduce.var, columns, axis=0), exact.var(axis=1), rtol=2e-6)


def test_means_of_nothing(call):
    with pytest.warns(RuntimeWarning, match="Mean of empty slice"):
        np.testing.assert_array_equal(
            call(reduce.mean, np.ones((0, 2), "f4"), axis=0), [np.nan] * 2
        )


@pytest.mark.parametrize("columns", full_beyond([1000, 5000], [5000]))
@pytest.mark.parametrize(
    "name", full_beyond(["sum", "max", "argmax", "argmin", "var", "std"], ["argmax", "var"])
)
def test_a_row_of_one_part_makes_its_result_alone(name, columns):
    with kd.use("cpu"):
        x = kd.to_device(np.arange(2 * columns, dtype=np.float32).reshape(2, columns))
        for axis in (1, 0):
            before = kd.memory_stats().allocation_count
            found = getattr(reduce, name)(x, axis=axis)
            assert kd.memory_stats().allocation_count == before + 1
            wanted = getattr(np, name)(x.copy_to_host(), axis=axis)
            assert np.allclose(found.copy_to_host(), wanted)


@pytest.mark.full
def test_dtypes_that_are_asked_for(call, rng):
    x = random_array(rng, (5, 100), "float32")
    got = call(reduce.sum, x, axis=1, dtype=np.float64)
    np.testing.assert_allclose(got, x.sum(axis=1, dtype=np.float64), rtol=1e-12)
    assert got.dtype == np.float64
    halves = np.full((2, 5000), 20, np.float16)  # each sum is too large for a float16
    assert call(reduce.mean, halves, axis=1).tolist() == [20, 20]
    assert call(reduce.sum, halves, axis=1, dtype=np.float32).tolist() == [1e5, 1e5]


@pytest.mark.full
def test_bfloat16(call, rng):
    x = random_array(rng, (3, 500), "float32").astype(kd.bfloat16)
    got = call(reduce.max, x, axis=1)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got.astype("f4"), x.astype("f4").max(axis=1))
    total = call(reduce.sum, x, axis=0).astype("f4")
    np.testing.assert_allclose(total, x.astype("f4").sum(axis=0), rtol=1e-2, atol=1e-2)


@pytest.mark.full
def test_broadcast_arrays(target):
    x = np.broadcast_to(np.arange(4, dtype=np.int64)[:, None], (300, 4, 5))
    for axis in sample((None, 0, 1, 2, (0, 2)), 3):
        np.testing.assert_array_equal(reduce.sum(x, axis), x.sum(axis))


def test_out(target, rng):
    x = random_array(rng, (70, 6, 90), "int16")
    for axis in sample((0, 1, 2, None, (0, 2)), 3):
        for keepdims in (False, True):
            exact = np.asarray(x.sum(axis, keepdims=keepdims))
            out = poisoned(exact.shape, exact.dtype)
            assert reduce.sum(x, axis, out=out, keepdims=keepdims) is out
            np.testing.assert_array_equal(out, exact)
            device = kd.to_device(poisoned(exact.shape, exact.dtype))
            assert reduce.sum(kd.to_device(x), axis, out=device, keepdims=keepdims) is device
            np.testing.assert_array_equal(device.copy_to_host(), exact)
    gaps = poisoned((12, 180), np.int64)[::2, ::2]
    assert reduce.sum(x, 0, out=gaps) is gaps
    np.testing.assert_array_equal(gaps, x.sum(0))


def test_out_may_be_a_part_of_the_input(target, rng):
    x = random_array(rng, (80, 50), "int64")
    exact = x.sum(0)
    assert reduce.sum(x, 0, out=x[3]) is not None
    np.testing.assert_array_equal(x[3], exact)


#: Functions, and what stands for NumPy's parameters by their order after the axis.
BY_POSITION = {
    "sum": (np.float64, None, True, 3.0),
    "prod": (np.float64, None, True, 3.0),
    "mean": (np.float64, None, True),
    "var": (np.float64, None, 1, True),
    "std": (np.float64, None, 1, True),
    "max": (None, True, 7),
    "min": (None, True, -7),
    "all": (None, True),
    "any": (None, True),
    "argmax": (None,),
    "argmin": (None,),
}


@pytest.mark.parametrize("name", BY_POSITION)
def test_parameters_have_numpys_order(call, rng, name):
    x = rng.integers(-9, 9, (4, 5))
    for axis in sample((1, 0), 1):
        got = call(getattr(reduce, name), x, axis, *BY_POSITION[name])
        exact = getattr(np, name)(x, axis, *BY_POSITION[name])
        np.testing.assert_allclose(got, exact, rtol=1e-12)
        assert (got.dtype, got.shape) == (exact.dtype, exact.shape)


@pytest.mark.full
@pytest.mark.parametrize("dtype", full_beyond(["int8", "float16", "complex64"], ["float16"]))
@pytest.mark.parametrize("name", ["all", "any"])
def test_truth_into_another_dtype(target, rng, name, dtype):
    x = rng.integers(0, 2, (3, 4, 2)).astype("float32")
    for make in (np.asarray, kd.to_device):
        for axis in sample((None, 0, (1, 2)), 2):
            exact = getattr(np, name)(x, axis).astype(dtype)
            out = make(poisoned(exact.shape, dtype))
            assert getattr(reduce, name)(make(x), axis, out) is out
            np.testing.assert_array_equal(kd.as_array(out).copy_to_host(), exact)
        with pytest.raises(ArgumentValueError, match=r"out has the shape \(4,\)"):
            getattr(reduce, name)(make(x), 0, make(np.zeros(4, dtype)))


@pytest.mark.parametrize("dtype", full_beyond(["complex64", "complex128"], ["complex64"]))
@settings(max_examples=examples(20, 2), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_extremes_of_complex_numbers_have_numpys_order(call, rng, dtype, data):
    shape = tuple(data.draw(st.sampled_from([1, 2, 7, 1500])) for _ in range(2))
    x = (rng.integers(0, 4, shape) + 1j * rng.integers(0, 4, shape)).astype(dtype)
    if data.draw(st.booleans()):
        x[tuple(data.draw(st.integers(0, n - 1)) for n in shape)] = complex(1, np.nan)
    axis = data.draw(st.sampled_from([None, 0, 1, (0, 1)]))
    for name in ("max", "min"):
        exact = getattr(np, name)(x, axis)
        np.testing.assert_array_equal(call(getattr(reduce, name), x, axis), exact)
        edge = 2 + 2j
        exact = getattr(np, name)(x, axis, initial=edge)
        np.testing.assert_array_equal(call(getattr(reduce, name), x, axis, initial=edge), exact)


def test_what_the_operator_captures(call, rng):
    mask = 0b1011
    x = random_array(rng, (9, 200), "uint32")
    got = call(reduce.reduce, x, lambda a, b: (a ^ b) & mask | (a ^ b) & ~mask, 0, 1)
    np.testing.assert_array_equal(got, np.bitwise_xor.reduce(x, axis=1))


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(
        ArgumentValueError, match=r"axis 2 is not one of an array of 2 dim.*-2 to 1"
    ):
        reduce.max(x, 2)
    with pytest.raises(ArgumentValueError, match="An axis is named twice"):
        reduce.max(x, (0, -2))
    with pytest.raises(ArgumentTypeError, match=r"axis is 1\.5"):
        reduce.max(x, 1.5)
    with pytest.raises(ArgumentTypeError, match=r"axis is \(0, 1\)"):
        reduce.argmax(x, (0, 1))
    with pytest.raises(ArgumentTypeError, match="x has the dtype <U1"):
        reduce.max(x.astype("U1"))
    for name in ("sum", "prod", "mean", "var"):
        with pytest.raises(ArgumentTypeError, match="imaginary parts would be lost"):
            getattr(reduce, name)(x.astype(complex), dtype=np.float32)
    with pytest.raises(ArgumentValueError, match=r"out has the shape \(2,\)"):
        reduce.max(x, 0, out=np.zeros(2))
    with pytest.raises(ArgumentTypeError, match="out has the dtype float64"):
        reduce.argmax(x, 0, out=np.zeros(3))


@pytest.mark.parametrize("count", [1 << 28, (1 << 28) + 1, 1 << 30, 3 << 31, 100_000_007])
def test_how_long_rows_are_cut(count):
    """Into parts of a size, as many as one block combines: a grid has 65535 along y at most."""
    row = np.broadcast_to(np.float32(0), (1, 1, count))
    for largest in (folding.LARGEST_PART, moments.LARGEST_PART):
        cut = arrangement.Arrangement((row,), by_rows=True, largest_part=largest)
        assert cut.chunk % arrangement.MIN_ROW_PART == 0
        assert cut.parts <= arrangement.MAX_PARTS
        assert cut.chunk <= max(largest, count // arrangement.MAX_PARTS + arrangement.MIN_ROW_PART)
    rows = np.broadcast_to(np.float32(0), (1, 9000, 1 << 15))
    assert arrangement.Arrangement((rows,), True, 1 << 13).parts == 1  # there are blocks enough


@pytest.mark.parametrize("size", full_beyond([300_017, 163_840], [300_017]))
def test_rows_of_more_blocks_than_a_device_runs(call, rng, monkeypatch, size):
    """Parts that would be larger, of fewer blocks, are of the largest size."""
    monkeypatch.setattr(arrangement, "ROW_BLOCKS", 2)
    monkeypatch.setattr(moments, "LARGEST_PART", arrangement.MIN_ROW_PART)
    monkeypatch.setattr(moments, "MANY_PARTS", 8)
    x = rng.integers(-99, 99, (2, size)).astype(np.float64)
    for axis in sample((1, None), 1):
        np.testing.assert_array_equal(call(reduce.sum, x, axis), x.sum(axis))
        np.testing.assert_array_equal(call(reduce.max, x, axis), x.max(axis))
        np.testing.assert_allclose(call(reduce.var, x, axis), x.var(axis), 1e-12)


@pytest.mark.full
@pytest.mark.parametrize("size", [4096, 4097, 16383, 16384, 16385, 40_000])
def test_rows_of_one_part_and_of_several(call, rng, size):
    x = np.round(rng.standard_normal((3, size)) * 9).astype(np.float32)
    for axis in (None, 1):
        np.testing.assert_array_equal(call(reduce.max, x, axis), x.max(axis))
        np.testing.assert_array_equal(call(reduce.argmax, x, axis), x.argmax(axis))
        np.testing.assert_allclose(call(reduce.var, x, axis), x.astype(float).var(axis), 1e-6)
        np.testing.assert_allclose(call(reduce.sum, x, axis), x.astype(float).sum(axis), 1e-6, 0.01)


@pytest.mark.parametrize(
    "dtype", full_beyond(["float32", "float64", "float16", "int8", "uint64"], ["float32"])
)
@pytest.mark.parametrize(
    "size",
    full_beyond([1024, lanes.PART + 1, lanes.SINGLE_BYTES + 129], [lanes.SINGLE_BYTES + 129]),
)
def test_extremes_of_long_rows(call, rng, dtype, size):
    """The first of equal elements and the first NaN count, wherever parts of a row begin."""
    x = random_array(rng, (3, size), dtype)
    if dtype.startswith("float"):
        x = np.where(np.isnan(x), np.float32(-0.0), x).astype(dtype)
        x[1, [size - 1, size // 2]] = np.nan
    top, bottom = x[2].max(), x[2].min()
    x[2, rng.integers(0, size, 5)] = top
    x[2, rng.integers(0, size, 5)] = bottom
    for view in (x, x[:, ::-1]):
        for name in sample(("max", "min", "argmin", "argmax"), 2):
            ours, numpys = getattr(reduce, name), getattr(np, name)
            for axis in (None, 1):
                np.testing.assert_array_equal(call(ours, view, axis), numpys(view, axis))


@st.composite
def rows_with_ties(draw: Any) -> np.ndarray:
    """Draw one row or several of few different numbers, near the sizes of lanes and of parts."""
    dtype = np.dtype(draw(st.sampled_from(["float32", "float64", "int32", "uint8", "complex64"])))
    near = [1, 2, lanes.SOUGHT_BYTES // 4, lanes.LANES_BYTES // 4, 1000, lanes.PART]
    size = max(1, draw(st.sampled_from(near)) + draw(st.integers(-1, 1)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    few = [0, 1, 2] if dtype.kind in "iu" else [-1.5, -0.0, 0.0, 2.5]
    x = rng.choice(np.array(few, dtype), (draw(st.sampled_from([1, 3])), size))
    if dtype.kind in "fc" and draw(st.booleans()):
        x[0, rng.integers(0, size, 2)] = np.nan
    x = np.repeat(x, 2, axis=1)[:, ::2] if draw(st.booleans()) else x
    return x[0] if draw(st.booleans()) else x


@settings(max_examples=examples(40, 4), deadline=None)
@given(x=rows_with_ties(), name=st.sampled_from(["argmax", "argmin", "max", "min"]))
def test_first_of_the_best_as_numpy_finds_it(x, name):
    """NaN is the best, of equal numbers such as 0.0 and -0.0 the first counts."""
    ours, numpys = getattr(reduce, name), getattr(np, name)
    with kd.use("cpu"):
        for axis in (None, -1, 0)[: x.ndim + 1]:
            for _ in range(2):  # planned, and repeated
                np.testing.assert_array_equal(ours(x, axis), numpys(x, axis))
        for _ in range(2):
            np.testing.assert_array_equal(ours(x), numpys(x))
