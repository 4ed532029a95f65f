"""A second process on a GPU finds what the first one compiled, and imports no compiler for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cache.programs import run_script

TEXT = """
import math
import numpy as np
import kerneldsl as kd

@kd.kernel
def elements(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + math.sin(x[i])

@kd.kernel(block=64)
def reverse(x, out):
    s = kd.shared.array(64, np.float64)
    i = kd.grid(1)
    t = kd.threadIdx.x
    s[t] = x[i]
    kd.syncthreads()
    out[i] = s[63 - t]

n = 64 * 1000
x = np.arange(n) / 7.0
with kd.use("cuda:0"):
    a, b = np.full(n, np.nan), np.full(n, np.nan)
    elements.forall(n)(2.0, x, a)
    reverse.forall(n)(x, b)
    y, z = kd.zeros(n, np.float64), kd.zeros(n, np.float64)
    elements[250, 256](2.0, y, z)
    kd.synchronize()
assert np.allclose(a, 2 * x + np.sin(x))
assert (b.reshape(-1, 64) == x.reshape(-1, 64)[:, ::-1]).all()
assert not z.copy_to_host().any()
result = [float(a.sum()), float(b[7])]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))


def test_a_warm_start(tmp_path: Path) -> None:
    on = {"KERNELDSL_CACHE": "on"}
    cold = run_script(tmp_path / "script.py", TEXT, **on)
    assert cold["hits"] == 0
    assert cold["writes"] >= 3
    warm = run_script(tmp_path / "script.py", **on)
    assert warm["result"] == cold["result"]
    assert (warm["hits"], warm["misses"], warm["writes"]) == (cold["writes"], {}, 0)
    assert "numba" not in warm["modules"]
    assert "cuda.core" not in warm["modules"]
