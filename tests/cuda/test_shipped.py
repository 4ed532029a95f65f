"""A package's machine code and PTX, on the device that they were built for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import kerneldsl as kd
from tests.shipping.programs import build, run, write_package

_LAUNCH = """
import json, sys
import numpy as np
import kerneldsl as kd
from mypkg.kernels import axpy, turn, waves
from kerneldsl.launch import artifact

found = []
make = artifact._compile_or_load
def noted(compiler, specialization):
    made, how, findings = make(compiler, specialization)
    found.append((how, type(made.image).__name__))
    return made, how, findings
artifact._compile_or_load = noted

with kd.use("cuda:0"):
    for n in (1000, 1_000_000, 20_000_000):
        x = kd.to_device(np.linspace(0, 3, n, dtype=np.float32))
        y = kd.ones(n, np.float32)
        axpy.forall(n)(np.float32(2), x, y)
        assert np.allclose(y.copy_to_host(), 2 * np.linspace(0, 3, n, dtype=np.float32) + 1)
        waves.forall(n)(x, y)
        assert np.allclose(y.copy_to_host(), np.sin(x.copy_to_host() ** 2 + 1) ** 3, atol=1e-5)
    a = np.arange(64, dtype=np.float32).reshape(4, 16)
    b = kd.to_device(a)
    turn[1, (16, 4)](b)
    assert np.array_equal(b.copy_to_host(), a[::-1, ::-1])
print(json.dumps([sorted(set(found)), "numba" in sys.modules]))
"""


@pytest.mark.parametrize("is_older", [False, True], ids=["machine code", "PTX"])
def test_shipped_code_runs(tmp_path: Path, is_older: bool) -> None:
    package = write_package(tmp_path)
    arch = kd.devices("cuda")[0].arch
    if is_older:  # the driver assembles the PTX for the device
        generations = ("sm_75", "sm_80", "sm_90", "sm_100")
        arch = max(
            (each for each in generations if _number(each) // 10 < _number(arch) // 10), key=_number
        )
    build(package, "--cpu", "", "--arch", arch)
    done = run(_LAUNCH, tmp_path)
    assert done.returncode == 0, done.stderr
    kind = "str" if is_older else "bytes"
    assert json.loads(done.stdout.splitlines()[-1]) == [[["shipped", kind]], False]


def _number(arch: str) -> int:
    return int(arch[3:].rstrip("af"))
