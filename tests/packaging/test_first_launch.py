"""A first launch runs the code of few files, and a second kernel's of fewer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Files whose code runs, imports included. They may only become fewer.
MOST_FIRST, MOST_SECOND = 245, 130
#: Modules that an element kernel without other intrinsics than ``grid`` does not need.
NEEDLESS = (
    "kerneldsl.ir.frontend.tiles",
    "kerneldsl.lowering.errors",
    "scipy.linalg",
    "targets.cpu.intrinsics.table",
    "targets.cpu.math.vector.trigonometry",
    "targets.cpu.regions.fission",
    "targets.cpu.regions.tiles",
)
PROGRAM = """
import json, sys, threading

entered = set()

def note(frame, event, _):
    if event == "call":
        entered.add(frame.f_code.co_filename)

def counted():
    found = [name for name in entered if name.startswith(tuple(ROOTS))]
    entered.clear()
    return len(found)

threading.setprofile(note)
sys.setprofile(note)
import numpy as np
import kerneldsl as kd

@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]

@kd.kernel
def triad(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] + a * y[i]

x, y, out = np.ones(1000), np.ones(1000), np.zeros(1000)
axpy.forall(1000)(2.0, x, y, out)
first = counted()
triad.forall(1000)(2.0, x, y, out)
second = counted()
sys.setprofile(None)
print(json.dumps([first, second, [name for name in NEEDLESS if name in sys.modules]]))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    folder = tmp_path_factory.mktemp("first")
    roots = [f"{ROOT / name}{os.sep}" for name in ("kerneldsl", "targets")]
    program = folder / "program.py"
    program.write_text(f"ROOTS, NEEDLESS = {roots}, {NEEDLESS}\n{PROGRAM}")
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_")}
    env = {
        **kept,
        "PYTHONPATH": str(ROOT),
        "KERNELDSL_TARGET": "cpu",
        "KERNELDSL_CACHE_DIR": str(folder / "cache"),
    }
    done = subprocess.run(
        [sys.executable, str(program)], env=env, capture_output=True, text=True, check=True
    )
    return list(json.loads(done.stdout))


def test_a_first_launch_and_a_second_kernel_run_the_code_of_few_files(found: list[object]) -> None:
    first, second, _ = found
    assert isinstance(first, int)
    assert isinstance(second, int)
    assert first <= MOST_FIRST
    assert second <= MOST_SECOND


def test_a_first_launch_imports_what_its_kernel_needs(found: list[object]) -> None:
    assert found[2] == []
