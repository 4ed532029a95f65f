"""The benchmark of explanations reads the table that Nsight Compute writes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

_FOLDER = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def explaining():
    sys.path.insert(0, str(_FOLDER))
    try:
        spec = importlib.util.spec_from_file_location("explain_benchmark", _FOLDER / "explain.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(_FOLDER))
    return module


def test_counters_are_read_by_launch(explaining, monkeypatch):
    metrics = sorted({each for group in explaining._COUNTERS.values() for each in group})
    rows = [["ID", "Kernel Name", *metrics], ["", "", *["unit"] * len(metrics)]]
    names = ["something_else", *(case.kernel.__name__ for case in explaining.CASES)]
    rows += [
        [str(n), f"kd_{name}_1f", *[f"{1000 + n:,}"] * len(metrics)] for n, name in enumerate(names)
    ]
    lines = ["==PROF== noise", *(",".join(f'"{cell}"' for cell in row) for row in rows)]
    done = subprocess.CompletedProcess([], 0, "\n".join(lines), "")
    monkeypatch.setattr(explaining.subprocess, "run", lambda *args, **kwargs: done)
    found = explaining.counted()
    assert len(found) == len(explaining.CASES) >= 24
    assert found[0]["load sectors"] == 1001
    assert found[0]["flops"] == 8 * 1001
    assert found[-1]["dram read bytes"] == 1000 + len(explaining.CASES)


def test_misses_are_named(explaining):
    one = dict.fromkeys(explaining._COUNTERS, 4.0)

    def found(name, **counts):
        case = next(case for case in explaining.CASES if case.name == name)
        return explaining.misses(
            case, one, {**one, **{k.replace("_", " "): v for k, v in counts.items()}}
        )

    assert found("stride 8") == {}
    assert found("stride 8", load_sectors=5.0) == {"sectors/load": ""}
    assert found("stride 8", dram_read_bytes=4.1) == {}
    assert found("stride 8", dram_read_bytes=8.0) == {"DRAM read": ""}
    assert "compiler" in found("tiled matmul", shared_load_wavefronts=3.0)["wavefronts, loads"]


def test_reasons_are_of_what_is_compared(explaining):
    assert all(explaining._TOLD.keys() >= case.because.keys() for case in explaining.CASES)


@pytest.mark.full
def test_every_case_is_explained(explaining):
    for case in explaining.CASES[::6]:
        counts = explaining.explained(case)
        assert counts["load requests"] > 0, case.name
        assert counts["dram read bytes"] > 0, case.name
