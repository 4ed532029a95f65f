"""``benchmarks/planner_fit.py`` judges the model by recorded times, through the planner itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


def _mapped(block: int, items: int, vector: int, us: float) -> dict[str, Any]:
    return {
        **{"block": [block, 1, 1], "items": [items, 1, 1], "vector": vector, "us": us},
        **{"registers": 16, "spill_bytes": 0, "parameters": {}},
    }


def _member(block: int, items: int, us: float) -> dict[str, Any]:
    return {
        **{"parameters": {"block": block, "items": items}, "us": us},
        **{"registers": 28, "spill_bytes": 0},
    }


def _sweep(name: str, exponent: int, swept: list[dict[str, Any]]) -> dict[str, Any]:
    size = {"exponent": exponent, "extent": [1 << exponent], "swept": swept}
    return {"name": name, "sizes": [size]}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    kernels = [
        # One element a thread in small blocks is what a large copy must not take.
        _sweep("copy f32", 26, [_mapped(32, 1, 1, 400.0), _mapped(256, 4, 4, 100.0)]),
        _sweep("histogram", 26, [_member(32, 1, 900.0), _member(512, 32, 100.0)]),
        _sweep("a kernel that is no more", 10, []),
    ]
    path = tmp_path / "sweep.json"
    path.write_text(json.dumps({"kernels": kernels}))
    return path


def test_it_says_what_the_planner_takes(sweep: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "planner_fit.py"), str(sweep)],
        env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(sweep.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "took 256×1×1 items 4×1×1 v4 100.00 µs" in done.stdout
    assert "took block=512, items=32 100.00 µs" in done.stdout
    assert done.stdout.splitlines()[-1] == "geomean 1.0000"
    assert "no more" not in done.stdout
