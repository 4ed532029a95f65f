"""Sorts and searches against NumPy's, over dtypes, axes and layouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels import arrays
from stdlib_kernels.compact import unique
from stdlib_kernels.sort import argsort, merge, ordering, searchsorted, sort, sort_pairs, top_k
from stdlib_kernels.sort.host import LONG_ROW, SHORT, sort_on_host
from stdlib_kernels.sort.onesweep import as_words, order_of, sort_long_rows
from stdlib_kernels.sort.rows import MAX_WIDTH, SHORT_ROW, sort_short_rows
from tests.support.arrays import HOST_DTYPES, assert_same_bits, poisoned, random_array, strided
from tests.support.extent import examples, full_beyond, sample

DTYPES = ["bool", "int8", "int32", "uint16", "uint64", "float16", "bfloat16", "float32", "float64"]
DTYPES = [each for each in DTYPES if each in HOST_DTYPES]


@pytest.fixture
def several(to_kind):
    """Function that calls on arrays of one kind, and returns several results as NumPy arrays."""

    def call(function, *args, **named):
        got = function(*(to_kind(a) if isinstance(a, np.ndarray) else a for a in args), **named)
        kind = kd.DeviceArray if to_kind is kd.to_device else np.ndarray
        assert all(isinstance(each, kind) for each in got)
        return [e.copy_to_host() if isinstance(e, kd.DeviceArray) else e for e in got]

    return call


def mixed(rng, shape, dtype):
    """Return random values, of which many are equal, with NaN of many bits, infinities and -0."""
    x = random_array(rng, shape, dtype)
    few = random_array(rng, 3, dtype)
    x = np.where(rng.random(shape) < 0.3, few[rng.integers(0, 3, shape)], x)
    if x.dtype.kind in "biu":
        return x
    special = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32).astype(dtype)
    return np.where(rng.random(shape) < 0.3, special[rng.integers(0, 6, shape)], x)


def places_in_order(x, axis, *, descending=False):
    """Return NumPy's places of a stable sort, NaN first where the order is descending."""
    wide = x.astype(np.float32) if x.dtype.name in ("float16", "bfloat16") else x
    if not descending:
        return np.argsort(wide, axis=axis, kind="stable")
    found = np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
    return x.shape[axis] - 1 - found


def bits(x):
    return np.ascontiguousarray(x).view(f"u{x.dtype.itemsize}")


@st.composite
def layouts(draw):
    """Draw a shape, a step in memory along each axis, and an axis or none."""
    ndim = draw(st.integers(1, 4))
    shape = [draw(st.integers(1, 5)) for _ in range(ndim)]
    shape[draw(st.integers(0, ndim - 1))] = draw(st.sampled_from([0, 1, 33, 64, 257, 1500]))
    steps = [draw(st.sampled_from([1, 1, 2, -1])) for _ in range(ndim)]
    axis = draw(st.one_of(st.none(), st.integers(-ndim, ndim - 1)))
    return tuple(shape), tuple(steps), axis


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn=layouts(), descending=st.booleans())
def test_any_axis_and_layout(call, several, rng, dtype, drawn, descending):
    shape, steps, axis = drawn
    x = strided(mixed(rng, shape, dtype), steps)
    taken, along = (x.reshape(-1), 0) if axis is None else (x, axis)
    places = places_in_order(taken, along, descending=descending)
    label = f"{shape} {steps} {axis} {descending}"
    exact = np.take_along_axis(taken, places, along)
    assert_same_bits(call(argsort, x, axis, descending=descending), places, label)
    got = call(sort, x, axis, descending=descending)
    assert_same_bits(got, exact, label)
    np.testing.assert_array_equal(bits(got), bits(exact), label)  # each NaN is kept
    values = random_array(rng, shape, "complex64")
    keys, moved = several(sort_pairs, x, values, axis, descending=descending)
    assert_same_bits(keys, exact, label)
    given_values = values.reshape(-1) if axis is None else values
    assert_same_bits(moved, np.take_along_axis(given_values, places, along), label)


#: Each sort, and rows that it takes: around a tile, a part, a segment, and beyond.
SORTS = {
    "tiles": (sort_short_rows, [(1, 1), (300, 2), (9, 31), (5, 33), (3, 1000), (2, MAX_WIDTH)]),
    "onesweep": (sort_long_rows, [(1, 1), (3, 7681), (1, 50_001)]),
    "host": (sort_on_host, [(1, 1), (7, SHORT), (5, SHORT + 1), (3, 999), (1, 3 * LONG_ROW + 1)]),
}


@pytest.mark.parametrize("descending", full_beyond([False, True], [True]))
@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
@pytest.mark.parametrize("name", full_beyond(SORTS, []))
def test_each_sort(target, rng, name, dtype, descending):
    """What sorts on a GPU gives the same on a host; a host's sort is asked there alone."""
    if name == "host" and target != "cpu":
        pytest.skip("a GPU's memory is not the host's")
    function, shapes = SORTS[name]
    for shape in shapes:
        x = mixed(rng, shape, dtype)
        order = order_of(x.dtype, descending=descending)
        places = places_in_order(x, 1, descending=descending)
        exact = bits(np.take_along_axis(x, places, 1))
        values = random_array(rng, shape, "uint16")
        on = kd.to_device if target != "cpu" else np.asarray
        for gives, beside in (("keys", None), ("places", places), ("values", values)):
            given_values = on(values) if gives == "values" else None
            keys, found = function(as_words(on(x)), given_values, order, gives)
            keys, found = (
                e.copy_to_host() if isinstance(e, kd.DeviceArray) else e for e in (keys, found)
            )
            np.testing.assert_array_equal(keys, exact, f"{name} {shape} {gives}")
            if gives == "values":
                beside = np.take_along_axis(values, places, 1)
            if beside is not None:
                np.testing.assert_array_equal(found, beside, f"{name} {shape} {gives}")
                assert found.dtype == beside.dtype


@pytest.mark.full
@pytest.mark.parametrize("kind", ["equal", "few", "in order", "reversed", "narrow"])
def test_shapes_of_data(call, rng, kind):
    n = 2 * LONG_ROW + 77
    x = {
        "equal": lambda: np.full(n, -5, np.int32),
        "few": lambda: rng.integers(-2, 2, n, np.int32),
        "in order": lambda: np.arange(n, dtype=np.int32) - n // 2,
        "reversed": lambda: np.arange(n, dtype=np.int32)[::-1],
        "narrow": lambda: rng.integers(1 << 20, (1 << 20) + 300, n, np.int32),
    }[kind]()
    np.testing.assert_array_equal(call(sort, x), np.sort(x))
    np.testing.assert_array_equal(call(argsort, x), np.argsort(x, kind="stable"))


@pytest.mark.full
def test_values_of_sixteen_bytes(several, rng):
    keys, values = rng.integers(0, 9, (4, 300)), random_array(rng, (4, 300), "complex128")
    got, moved = several(sort_pairs, keys, values, 0)
    places = np.argsort(keys, axis=0, kind="stable")
    np.testing.assert_array_equal(got, np.sort(keys, axis=0))
    assert_same_bits(moved, np.take_along_axis(values, places, 0), "complex128")


def test_out(target, rng):
    x = random_array(rng, (6, 50), "float32")
    for make in (np.asarray, kd.to_device):
        for function, dtype, exact in (
            (sort, "float32", np.sort(x, 0)),
            (argsort, "int64", np.argsort(x, 0, kind="stable")),
        ):
            out = make(poisoned(x.shape, dtype))
            assert function(make(x), 0, out=out) is out
            np.testing.assert_array_equal(np.asarray(kd.as_array(out).copy_to_host()), exact)
    overlapping = x.copy()
    assert sort(overlapping, out=overlapping) is overlapping
    np.testing.assert_array_equal(overlapping, np.sort(x))


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, []))
def test_top_k(several, rng, dtype):
    cases = [((3, 40), 1, 5), ((2, 3, 4), 0, 2), ((5,), -1, 0), ((2 * MAX_WIDTH + 5,), 0, 9)]
    for shape, axis, k in (*cases, ((2, MAX_WIDTH + 1), 1, 3), ((9 * MAX_WIDTH,), 0, 600)):
        x = mixed(rng, shape, dtype)
        for largest in (True, False):
            places = places_in_order(x, axis, descending=largest)
            places = places[(slice(None),) * (axis % x.ndim) + (slice(k),)]
            values, found = several(top_k, x, k, axis, largest=largest)
            np.testing.assert_array_equal(found, places, f"{shape} {k} {largest}")
            assert_same_bits(values, np.take_along_axis(x, places, axis), f"{shape} {k}")


@pytest.mark.parametrize("dtype", full_beyond(DTYPES, ["float32"]))
def test_the_first_of_many_rows_as_on_a_gpu(target, rng, monkeypatch, dtype):
    monkeypatch.setattr(ordering, "is_on_host", lambda x: False)
    sizes = [(MAX_WIDTH + 1, 3), (MAX_WIDTH + 5, MAX_WIDTH + 5), (3 * MAX_WIDTH + 77, 700)]
    for n, k in sample((*sizes, (SHORT_ROW + 9, 40)), 2):
        x = mixed(rng, (ordering.MANY_ROWS, n), dtype)
        x[0] = x[0, 0]  # all alike
        for largest in (True, False):
            places = places_in_order(x, 1, descending=largest)[:, :k]
            values, found = top_k(x, k, largest=largest)
            np.testing.assert_array_equal(found, places, f"{n} {k} {largest}")
            assert_same_bits(values, np.take_along_axis(x, places, 1), f"{n} {k}")


PAIRS = ["int32 int32", "float32 float32", "float64 int16", "bool uint8"]


@pytest.mark.parametrize("dtypes", full_beyond(PAIRS, ["float32 float32"]))
@settings(max_examples=examples(10), deadline=None, suppress_health_check=list(HealthCheck))
@given(n=st.sampled_from([0, 1, 2, 100, 1000]), m=st.sampled_from([0, 1, 7, 500]))
def test_searches(call, rng, dtypes, n, m):
    dtype, other = dtypes.split()
    x, v = np.sort(mixed(rng, n, dtype)), mixed(rng, m, other)
    x = strided(x, (2,))
    for side in ("left", "right"):
        got = call(searchsorted, x, v.reshape(1, -1), side)
        np.testing.assert_array_equal(got, np.searchsorted(x, v.reshape(1, -1), side))
        assert got.dtype == np.int64
    y = np.sort(v)
    both = np.concatenate([x, y])
    got = call(merge, x, y)
    assert got.dtype == both.dtype
    np.testing.assert_array_equal(got, np.sort(both, kind="stable"))


def test_refusals(target):
    x = np.ones((2, 3))
    with pytest.raises(ArgumentTypeError, match="<U1"):
        top_k(x.astype("U1"), 1)
    with pytest.raises(ArgumentValueError, match="sorter has the index -1, which"):
        searchsorted(np.ones(3), np.ones(1), sorter=np.array([0, 1, -1]))
    with pytest.raises(ArgumentValueError, match=r"sorter has the shape \(2,\)"):
        searchsorted(np.ones(3), np.ones(1), sorter=np.array([0, 1]))
    with pytest.raises(ArgumentTypeError, match="sorter has the dtype float64"):
        searchsorted(np.ones(3), np.ones(1), sorter=np.ones(3))
    with pytest.raises(ArgumentValueError, match="axis 2"):
        argsort(x, 2)
    with pytest.raises(ArgumentValueError, match="axis -1"):
        sort(np.array(1.0))
    with pytest.raises(ArgumentValueError, match=r"values has the shape \(3,\)"):
        sort_pairs(x, np.ones(3))
    with pytest.raises(ArgumentTypeError, match="out has the dtype float64"):
        argsort(x, out=np.ones((2, 3)))
    with pytest.raises(ArgumentValueError, match="k is 4"):
        top_k(x, 4)
    with pytest.raises(ArgumentTypeError, match=r"k is 1\.5"):
        top_k(x, 1.5)
    with pytest.raises(ArgumentValueError, match="x has 2 dimensions"):
        searchsorted(x, x)
    with pytest.raises(ArgumentValueError, match="side is 'middle'"):
        searchsorted(x[0], x, "middle")
    with pytest.raises(ArgumentTypeError, match="descending"):
        sort(x, descending=2.5)


def mixed_complex(rng, shape, dtype):
    """Return random complex numbers, of which many have equal or NaN parts."""
    real = np.empty(0, dtype).real.dtype
    parts = np.round(mixed(rng, (*shape, 2), real))
    return np.ascontiguousarray(parts).view(dtype)[..., 0]


@pytest.mark.parametrize("dtype", full_beyond(["complex64", "complex128"], ["complex64"]))
@pytest.mark.parametrize(
    "shape", full_beyond([(0,), (1,), (40,), (300, 3), (2, 1500)], [(2, 1500)])
)
def test_complex_numbers_in_numpys_order(call, several, rng, dtype, shape):
    x = mixed_complex(rng, shape, dtype)
    for view in (x, strided(x, (-2,) * x.ndim)):
        for axis in range(x.ndim):
            places = np.argsort(view, axis=axis, kind="stable")
            exact = np.take_along_axis(view, places, axis)
            np.testing.assert_array_equal(call(argsort, view, axis), places)
            np.testing.assert_array_equal(call(sort, view, axis), exact)
            found = call(argsort, view, axis, descending=True)
            first = places_in_order(view, axis, descending=True)
            np.testing.assert_array_equal(found, first)
            first = np.take(first, range(min(2, view.shape[axis])), axis)
            values, found = several(top_k, view, first.shape[axis], axis)
            np.testing.assert_array_equal(found, first)
            np.testing.assert_array_equal(values, np.take_along_axis(view, first, axis))
        keys, moved = several(sort_pairs, view, view.real.copy(), 0)
        places = np.argsort(view, axis=0, kind="stable")
        np.testing.assert_array_equal(keys, np.take_along_axis(view, places, 0))
        np.testing.assert_array_equal(moved, np.take_along_axis(view.real, places, 0))
    line, values = np.sort(x.reshape(-1)), mixed_complex(rng, (77,), dtype)
    for side in ("left", "right"):
        got = call(searchsorted, line, values, side)
        np.testing.assert_array_equal(got, np.searchsorted(line, values, side))
    both = np.sort(np.concatenate([line, np.sort(values)]), kind="stable")
    np.testing.assert_array_equal(call(merge, line, np.sort(values)), both)
    np.testing.assert_array_equal(call(unique, x), np.unique(x))


@pytest.mark.parametrize("dtype", full_beyond(["int8", "uint64", "float32"], ["uint64"]))
def test_searches_of_numbers_and_by_a_sorter(to_kind, rng, dtype):
    x = random_array(rng, (50,), dtype)
    line = np.sort(x)
    for v in (0, 3, 2.5, float(line[7]), 1000, -1000, np.float32(2), line[9]):
        for side in ("left", "right"):
            found = searchsorted(to_kind(line), v, side)
            assert np.shape(found) == ()
            found = found if to_kind is np.asarray else found.copy_to_host()
            assert int(found) == int(np.searchsorted(line, v, side)), (v, side)
    places = np.argsort(x)
    for _ in range(2):
        found = searchsorted(to_kind(x), to_kind(x[::3].copy()), sorter=to_kind(places))
        found = found if to_kind is np.asarray else found.copy_to_host()
        np.testing.assert_array_equal(found, np.searchsorted(x, x[::3], sorter=places))


@pytest.mark.parametrize("function", [sort, argsort])
def test_options_of_numpy_that_change_nothing(call, rng, function):
    x = rng.integers(0, 4, 50)
    exact = function(x)
    for options in ({"kind": "quicksort"}, {"stable": False}):
        np.testing.assert_array_equal(call(lambda x, by=options: function(x, **by), x), exact)
    np.testing.assert_array_equal(function(x, -1, "stable"), exact)


@pytest.mark.parametrize("n", [9, SHORT + 1, 3000, LONG_ROW])
@pytest.mark.parametrize("dtype", ["float64", "int16"])
def test_a_captured_sort_sorts_what_is_there_at_the_launch(rng, n, dtype):
    # Also the first sort, which uploads the bounds of rows. Digits were those of elements unread.
    arrays._uploaded.cache_clear()
    with kd.use("cpu"):
        x = kd.to_device(np.zeros(n, dtype))
        stream = kd.Stream()
        with stream.capture() as graph:
            found, places = sort(x), argsort(x)
        for high in (3, 30000):
            now = rng.integers(-high, high, n).astype(dtype)
            x.copy_from_host(now)
            graph.launch(stream)
            stream.synchronize()
            np.testing.assert_array_equal(found.copy_to_host(), np.sort(now))
            np.testing.assert_array_equal(places.copy_to_host(), np.argsort(now, stable=True))
