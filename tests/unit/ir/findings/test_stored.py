"""Findings are stored with code by numbers of nodes, and are right for a kernel that has moved."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.findings import finding_text, from_numbers, numbered
from tests.support.source import exec_source

_TEXT = """
import numpy as np
import kerneldsl as kd

@kd.func
def put(out, i, value):
    out[i] = value

@kd.kernel
def kernel(u, n, out):
    i = kd.grid(1)
    v = u[i] // n[i]
    put(out, i, v * 0.5)
"""


def _artifact(text: str):
    kernel = exec_source(text)["kernel"]
    return kernel.artifact("uint64[::1], int64[::1], int64[::1]", forall=1, target="null")


def test_findings_of_a_moved_kernel_have_its_lines() -> None:
    with pytest.warns(kd.KernelWarning):
        artifact = _artifact(_TEXT)
    with pytest.warns(kd.KernelWarning):
        moved = _artifact("\n\n\n" + _TEXT.replace("u[i] // n[i]", "u[i]//n[i]"))
    stored = json.loads(json.dumps(numbered(artifact.findings, artifact.specialization.unit)))
    found = from_numbers(stored, moved.specialization.unit)
    assert [finding_text(each) for each in found] == list(map(finding_text, moved.findings))
    assert [each.place.line for each in found] == [15, 10]
    assert found == moved.findings


def test_what_is_of_another_kernel_is_left_out() -> None:
    with pytest.warns(kd.KernelWarning):
        unit = _artifact(_TEXT).specialization.unit
    for stored in (None, 3, [[]], [[[0, 10**6], "text", []]], [[[9, 0], "text", []]]):
        assert from_numbers(stored, unit) == ()


@numba.njit
def third(x):
    return x // 3


@kd.kernel
def calls_numba(u, out):
    i = kd.grid(1)
    out[i] = third(u[i])


def test_functions_of_numba_are_looked_through_for_a_gpu() -> None:
    said = "third: x is uint64 and 3 is int64"
    with pytest.warns(kd.KernelWarning, match=said), kd.use("null"):
        calls_numba[1, 2](np.ones(2, np.uint64), np.zeros(2, np.uint64))


@pytest.mark.full
def test_a_kernel_that_moved_is_warned_of_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "divides.py"
    text = (
        "import sys, numpy as np, kerneldsl as kd\n"
        "@kd.kernel\n"
        "def divides(u, n, out):\n"
        "    i = kd.grid(1)\n"
        "    v = u[i]\n"
        "    if n[i] > 3:\n"
        "        v = n[i]\n"
        "    out[i] = v // 3\n"
        "divides[1, 1](np.ones(1, np.uint64), np.ones(1, np.int64), np.zeros(1))\n"
        "print(kd.cache.stats().hits, 'numba' in sys.modules)\n"
    )
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("KERNELDSL_TARGET", "cpu")
    monkeypatch.delenv("KERNELDSL_CACHE", raising=False)
    for lines, printed in ((0, "0 True"), (3, "1 False")):
        script.write_text("\n" * lines + text)
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == printed
        said = f"v is uint64 where line {lines + 5} assigns it and int64 where line {lines + 7}"
        assert said in done.stderr
        assert f"divides.py:{lines + 8}" in done.stderr
