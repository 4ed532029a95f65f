"""The first call of a process whose kernels are compiled already imports no more than it needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: None of these has a part in a call whose code is found.
NEEDLESS = ("numba", "numpy.ma")
PROGRAM = f"""
import sys
import numpy as np
import kerneldsl as kd
import stdlib_kernels as sk

x = np.random.default_rng(1).random(1000, np.float32)
sk.CALL
print(kd.cache.stats().hits > 0, [name for name in {NEEDLESS} if name in sys.modules])
"""


@pytest.mark.full
@pytest.mark.parametrize(
    "call", ["sum(x)", "sort(np.arange(40000.0))", "softmax(x.reshape(10, 100))"]
)
def test_a_call_of_cached_kernels_imports_what_it_needs(call, tmp_path, monkeypatch):
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    program = PROGRAM.replace("CALL", call)
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
    assert done.stdout.strip() == "True []"


#: Parts of kerneldsl that a launch imports, while a driver starts.
OF_A_LAUNCH = ("analysis", "cache", "ir", "lowering", "planner")


def test_a_function_is_imported_without_what_a_launch_takes():
    program = "import sys, numpy; from stdlib_kernels import sum, sort; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    parts = {each.split(".")[1] for each in done.stdout.split() if each.startswith("kerneldsl.")}
    assert not parts & set(OF_A_LAUNCH)
