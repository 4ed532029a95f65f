"""Dates and durations around a kernel: which dtypes, what is refused, arguments, PTX."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.errors import ArgumentTypeError, KernelTypingError, UnsupportedConstructError
from kerneldsl.language.element_types import ELEMENT_TYPES, element_name, numpy_dtype
from kerneldsl.language.times import common_unit, unit_factor
from tests.support.extent import IS_QUICK

_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as")


@pytest.fixture(autouse=True)
def _on_cpu():
    with kd.use("cpu"):
        yield


@pytest.mark.parametrize("kind", ["M", "m"])
def test_each_unit_has_an_element_type(kind: str) -> None:
    for unit in _UNITS:
        dtype = np.dtype(f"{kind}8[{unit}]")
        name = element_name(dtype)
        assert name == dtype.name
        row = ELEMENT_TYPES[name]
        assert (row.nbytes, row.alignment, row.kind.value) == (8, dtype.alignment, kind)
        assert numpy_dtype(name) == np.dtype(row.typestr) == dtype
        assert not row.is_number
        assert name not in list(ELEMENT_TYPES)
    for other in (f"{kind}8", f"{kind}8[25s]", f">{kind}8[s]"):
        assert element_name(np.dtype(other)) is None


def test_factors_are_numpys() -> None:
    """Units of a calendar are refused, where NumPy converts dates or takes an average."""
    for one in _UNITS:
        for two in _UNITS:
            is_calendar = (one in "YM") != (two in "YM")
            found = unit_factor(one, two)
            if is_calendar:
                assert found is None
                assert common_unit(one, two) is None
                continue
            finer = max(one, two, key=_UNITS.index)
            assert common_unit(one, two) == finer
            assert (found is None) == (finer != two)
            if found is not None and found < 2**50:
                assert found == int(np.timedelta64(1, one).astype(f"m8[{two}]").view(np.int64))


_DURATIONS = st.integers(-(2**40), 2**40) | st.sampled_from([-(2**63), 0, 1, -1])


@kd.kernel
def everything(d, e, k, out, ratio, whole, order):
    i = kd.grid(1)
    out[0, i] = d[i] + e[i]
    out[1, i] = d[i] - e[i]
    out[2, i] = d[i] % e[i]
    ratio[i] = d[i] / e[i]
    whole[i] = d[i] // e[i]
    out[3, i] = d[i] * k[i] + e[i] * 0
    out[4, i] = d[i] // k[i] + e[i] * 0
    order[i] = (1 if d[i] < e[i] else 0) + (2 if d[i] == e[i] else 0) + (4 if d[i] >= e[i] else 0)


@settings(deadline=None, max_examples=25 if IS_QUICK else 200)
@given(
    st.lists(st.tuples(_DURATIONS, _DURATIONS, st.integers(-9, 9)), min_size=1, max_size=9),
    st.sampled_from([("h", "m")] if IS_QUICK else [("h", "m"), ("s", "s"), ("D", "W"), ("Y", "M")]),
)
def test_operators_are_numpys(rows, units):
    one, two, k = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    d, e = (a.view(f"m8[{unit}]") for a, unit in zip((one, two), units, strict=True))
    n, dtype = len(rows), np.promote_types(d.dtype, e.dtype)
    out = np.full((5, n), 9, np.int64).view(dtype)
    ratio, whole, order = np.full(n, 9.0), np.full(n, 9), np.full(n, 9)
    everything.forall(n)(d, e, k, out, ratio, whole, order)
    with np.errstate(all="ignore"):
        zero = e * 0
        wanted = [d + e, d - e, d % e, d * k + zero, d // k + zero]
        np.testing.assert_array_equal(ratio, d / e)
        np.testing.assert_array_equal(whole, d // e)
    for found, each in zip(out, wanted, strict=True):
        assert (found.view(np.int64) == each.astype(dtype).view(np.int64)).all()
    np.testing.assert_array_equal(order, (d < e) + 2 * (d == e) + 4 * (d >= e))


@kd.kernel
def shifted(a, step, out):
    i = kd.grid(1)
    out[i] = a[i] + step


def test_a_scalar_is_of_its_own_unit():
    """One launch after the other, of other units, though their class is one."""
    a, out = np.array(["2026-01-01", "NaT"], "M8[s]"), np.zeros(2, "M8[ms]")
    for step in (np.timedelta64(2, "s"), np.timedelta64(2, "h"), np.timedelta64("NaT", "s")):
        shifted.forall(2)(a, step, out)
        np.testing.assert_array_equal(out, a + step)
        launch = shifted.forall(2).bind(a, step, out)
        out[:] = a[0]
        launch()
        np.testing.assert_array_equal(out, a + step)


def test_device_arrays_hold_them():
    a = np.array(["2026-01-01", "NaT", "1969-12-31"], "M8[D]")
    device, out = kd.to_device(a), kd.zeros(3, "M8[h]")
    shifted.forall(3)(device, np.timedelta64(5, "h"), out)
    assert device.dtype == a.dtype
    np.testing.assert_array_equal(out.copy_to_host(), a + np.timedelta64(5, "h"))
    with pytest.raises(ArgumentTypeError, match=r"dtype datetime64\[D\]"):
        device.max()


def _refused(function, *args):
    with pytest.raises(KernelTypingError) as caught:
        kd.kernel(function).forall(1)(*args)
    return str(caught.value)


def test_operators_that_numpy_has_not_are_refused():
    dates, durations = np.zeros(2, "M8[s]"), np.zeros(2, "m8[s]")

    def add_dates(a, out):
        out[0] = a[0] + a[1]

    def add_a_number(a, out):
        out[0] = a[0] + 3

    def negate(a, out):
        out[0] = -a[0]

    def store_a_number(a, out):
        out[0] = 3

    def scale(a, out):
        out[0] = a[0] * 2.5

    assert "does not take datetime64[s] and datetime64[s]" in _refused(add_dates, dates, dates)
    assert "does not take timedelta64[s] and int64" in _refused(add_a_number, durations, durations)
    assert "does not take datetime64[s]" in _refused(negate, dates, dates)
    assert "durations are added" in _refused(store_a_number, durations, durations)
    assert "timedelta64[s] and float64" in _refused(scale, durations, durations)


def test_a_calendar_is_left_to_numpy():
    def difference(a, b, out):
        out[0] = a[0] - b[0]

    text = _refused(difference, np.zeros(1, "M8[M]"), np.zeros(1, "M8[D]"), np.zeros(1, "m8[D]"))
    assert "one unit before the launch, array.astype('M8[s]')" in text
    text = _refused(difference, *(np.zeros(1, "M8[s]"),) * 2, np.zeros(1, "m8[m]"))
    assert "timedelta64[s] is stored in an element of timedelta64[m][::1]" in text


_DAY = np.timedelta64(1, "D")
_EPOCH = np.datetime64("2000-01-01", "s")


def test_what_numpy_makes_is_an_argument():
    def captured_duration(a, out):
        out[0] = a[0] + _DAY

    def captured_date(a, out):
        out[0] = _EPOCH

    def made(a, out):
        out[0] = a[0] + np.timedelta64(3, "s")

    def tested(a, out):
        out[0] = a[1] if np.isnat(a[0]) else a[0]

    for function in (captured_duration, captured_date):
        with pytest.raises(UnsupportedConstructError, match="Pass it as an argument"):
            kd.kernel(function).forall(1)(np.zeros(2, "M8[s]"), np.zeros(2, "M8[s]"))
    for function in (made, tested):
        with pytest.raises(UnsupportedConstructError, match="x != x says whether x is NaT"):
            kd.kernel(function).forall(1)(np.zeros(2, "M8[s]"), np.zeros(2, "M8[s]"))


def test_units_with_a_number_are_converted_before():
    for value in (np.zeros(2, "M8[25s]"), np.datetime64(3, "25s"), np.zeros(2, "m8")):
        with pytest.raises(ArgumentTypeError, match=r"one unit.*8\[s\]"):
            shifted.forall(2)(value, np.timedelta64(1, "s"), np.zeros(2, "M8[s]"))


def test_signatures_of_numbas_types():
    types = pytest.importorskip("numba").types

    @kd.kernel([(types.NPDatetime("s")[::1], types.NPTimedelta("s"), types.NPDatetime("s")[::1])])
    def declared(a, step, out):
        out[kd.grid(1)] = a[kd.grid(1)] + step

    a, out = np.array(["2026-01-01"], "M8[s]"), np.zeros(1, "M8[s]")
    declared.forall(1)(a, np.timedelta64(4, "s"), out)
    assert out[0] == a[0] + np.timedelta64(4, "s")
    with pytest.raises(ArgumentTypeError, match=r"expects timedelta64\[s\]"):
        declared.forall(1)(a, np.timedelta64(4, "h"), out)


def test_a_gpu_has_code_for_all_of_it():
    a, step = np.zeros(1, "M8[s]"), np.timedelta64(1, "s")
    assert "st.global.b64" in shifted.ptx(a, step, a, arch="sm_90", forall=1)
    assert "datetime64[s]" in shifted.typed_source(a, step, a)
