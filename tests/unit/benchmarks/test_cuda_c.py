"""The corpus of kernels beside CUDA C: whole, of one meaning, and compared as it says."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd

_FOLDER = Path(__file__).parents[3] / "benchmarks"
_CORPUS = ("blocks", "fields", "floats", "integers", "lanes", "matrices", "records", "reductions")
#: What the corpus leaves out of benchmarks/lanes: functions that are no kernels.
_LANES = (
    "fractals",
    "geometry",
    "grids",
    "mathematics",
    "random_numbers",
    "rows",
    "sorting_and_scans",
    "sparse",
    "tables",
)
_ENTRY = re.compile(r'extern "C" __global__ void (\w+)\(')


@pytest.fixture(scope="module")
def cases():
    sys.path.insert(0, str(_FOLDER))
    try:
        yield {name: importlib.import_module(f"cuda_c.{name}").cases() for name in _CORPUS}
    finally:
        sys.path.remove(str(_FOLDER))


def test_each_kernel_is_beside_its_text(cases) -> None:
    for name, found in cases.items():
        texts = _ENTRY.findall((_FOLDER / "cuda_c" / f"{name}.cu").read_text())
        assert sorted(texts) == sorted(case.name for case in found)
        assert {case.source for case in found} == {name}
    assert sum(map(len, cases.values())) >= 40


def test_every_kernel_of_lanes_is_in_the_corpus(cases) -> None:
    kernels = {case.kernel for case in cases["lanes"]}
    for name in _LANES:
        module = sys.modules[f"lanes.{name}"]
        theirs = {each for each in vars(module).values() if isinstance(each, kd.Kernel)}
        assert theirs
        assert theirs <= kernels


@pytest.mark.full
def test_parameters_are_those_of_the_text(cases) -> None:
    """As many parameters as arguments are passed, pointers where there are arrays."""
    small = ("look_up", "gather", "axpy_f16", "multiply", "align")
    for name, found in cases.items():
        text = (_FOLDER / "cuda_c" / f"{name}.cu").read_text()
        for case in found:
            if case.name not in small:
                continue
            parameters = re.search(rf"void {case.name}\(([^)]*)\)", text)[1].split(",")
            passed = case.passed(case.make(np.random.default_rng(1)))
            assert [("*" in each) for each in parameters] == [
                isinstance(each, np.ndarray) for each in passed
            ]


def test_different_results_are_refused(cases) -> None:
    case = next(each for each in cases["floats"] if each.name == "axpy")
    right = (0, 0, 0, np.arange(1, 9, dtype=np.float32))
    case.compare(right, right)
    for wrong in (right[3] * np.float32(1.001), np.full(8, np.nan, np.float32)):
        with pytest.raises(AssertionError, match=r"axpy: \d of 8 elements of argument 3 differ"):
            case.compare((0, 0, 0, wrong), right)
