"""The benchmark of kernels on the CPU refuses wrong results and counts the cases below a bound."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

_FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def lanes():
    sys.path.insert(0, str(_FOLDER))
    try:
        yield {name: importlib.import_module(f"lanes.{name}") for name in ("bounds", "case")}
    finally:
        sys.path.remove(str(_FOLDER))


def _case(lanes, out, **more):
    expected = np.arange(1000).astype(np.float64)
    return lanes["case"].Case("count", (out,), (expected,), 1e-6, lambda: None, {}, **more)


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int16])
def test_an_output_left_unwritten_is_refused(lanes, dtype):
    out = np.arange(1000).astype(dtype)
    with pytest.raises(AssertionError, match="count, ours: 1000 of 1000 elements are wrong"):
        _case(lanes, out, strays=0.5).check("ours", lambda: None)


def test_few_elements_may_stray_where_a_case_says_so(lanes):
    out = np.empty(1000, np.float32)

    def nearly():
        out[:] = np.arange(1000)
        out[[3, 4]] = np.nan

    _case(lanes, out, strays=0.002).check("C", nearly)
    with pytest.raises(AssertionError, match="2 of 1000"):
        _case(lanes, out, strays=0.001).check("C", nearly)


def test_arrays_that_change_in_place_are_prepared_behind_the_poison(lanes):
    out = np.empty(1000, np.float32)

    def doubled():
        out[:] *= 2

    def prepare():
        out[:] = np.arange(1000) / 2

    _case(lanes, out, prepare=prepare).check("ours", doubled)


def test_cases_below_a_bound_are_named(lanes):
    bounds = lanes["bounds"]
    rows = [
        {"name": "fast", "seconds": {"ours": 1.0, "C": 4.0, "prange": 4.0, "numpy": 0.01}},
        {"name": "slow", "seconds": {"ours": 1.0, "C": 0.6, "prange": 1.0}},
    ]
    found = bounds.summarized(rows)
    assert found["C"]["slow"] == ["slow"]
    assert found["C"]["geometric_mean"] == pytest.approx(2.4**0.5)
    assert found["prange"]["slow"] == []
    assert (found["numpy"]["cases"], found["numpy"]["least"]) == (1, None)
    kept = {rival: bounds.within_bounds(each) for rival, each in found.items()}
    assert kept == {"C": False, "prange": True, "numpy": True}
    assert bounds.described("C", found["C"]).endswith("1 reach 0.7x\n    below: slow")
