"""No operation on numbers is lowered to an exception, which would end its thread."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.extent import IS_QUICK
from tests.support.programs import run_program

# Numba lowers a helper once for a process: so this one compiles nothing else.
PROGRAM = """
import os

import numpy as np
from numba.core.callconv import CPUCallConv

import kerneldsl as kd
from kerneldsl.lowering.numba_internals.device_code import DeviceCallConv
from tests.conformance.kernels import floats, mathematics, scalar_sweep, special_values

target, step = os.environ["TARGET"], int(os.environ["STEP"])
convention = CPUCallConv if target == "cpu" else DeviceCallConv
raised = []
lower = convention.return_user_exc


def record(self, builder, exc, *args, **named):
    # RuntimeError is what Numba's runtime, and faults of debug mode, are made of.
    if exc is not RuntimeError:
        raised.append(exc.__name__)
    return lower(self, builder, exc, *args, **named)


convention.return_user_exc = record
topics = (scalar_sweep, special_values, floats, mathematics)
cases = [case for topic in topics for case in topic.CASES][::step]
for case in cases:
    raised.clear()
    args = case.arguments(np.random.default_rng(0))
    if target == "cpu":
        with kd.use("cpu"):
            case.launch(args)
    else:
        case.kernel.ptx(*args, arch="sm_90")
    if raised:
        print(case.name, *sorted(set(raised)))
print(len(cases), "compiled")
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_no_operation_is_lowered_to_an_exception(target: str, tmp_path: Path) -> None:
    step = "53" if IS_QUICK else "1"
    cache = str(tmp_path / "cache")
    done = run_program(tmp_path, PROGRAM, TARGET=target, STEP=step, KERNELDSL_CACHE_DIR=cache)
    *found, last = done.stdout.splitlines()
    assert not found, done.stdout
    assert last.endswith("compiled"), done.stderr
    assert int(last.split()[0]) > 10
