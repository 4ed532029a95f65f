"""What has to be seen from outside: output of kernels, forked children, lost contexts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.programs import run_program


def test_print_reaches_stdout(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
import numpy as np
import kerneldsl as kd

@kd.kernel
def show(x, n):
    i = kd.grid(1)
    if i < n:
        print("element", i, x[i], n > 2)

with kd.use("cuda"):
    show[1, 32](kd.to_device(np.array([1.5, -2.25, 3.0], np.float32)), 3)
    kd.synchronize()
""",
    )
    assert done.returncode == 0, done.stderr
    lines = sorted(line for line in done.stdout.splitlines() if line.startswith("element"))
    assert len(lines) == 3, done.stdout
    for line, index, value in zip(lines, range(3), (1.5, -2.25, 3.0), strict=True):
        words = line.split()
        assert words[1] == str(index)
        assert float(words[2]) == value


def test_a_forked_child_is_told_to_spawn(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
import os
import numpy as np
import kerneldsl as kd
from kerneldsl.errors import DriverError

@kd.kernel
def increase(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1

with kd.use("cuda"):
    x = kd.zeros(10)
    increase.forall(10)(x)
    kd.synchronize()
    child = os.fork()
    if child == 0:
        try:
            increase.forall(10)(x)
        except DriverError as error:
            print("child:", error, flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    increase.forall(10)(x)
    print("parent:", x.copy_to_host().sum())
""",
    )
    assert done.returncode == 0, done.stderr
    assert "child: Could not use CUDA in this process" in done.stdout
    assert "spawn" in done.stdout
    assert "parent: 20.0" in done.stdout


def test_a_child_forked_before_cuda_was_used_works(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
import os
import numpy as np
import kerneldsl as kd

@kd.kernel
def increase(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] += 1

child = os.fork()
with kd.use("cuda"):
    x = kd.zeros(10)
    increase.forall(10)(x)
    assert x.copy_to_host().sum() == 10
if child:
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    print("both")
else:
    os._exit(0)
""",
    )
    assert done.returncode == 0, done.stderr
    assert "both" in done.stdout


def test_an_illegal_address_names_debug_mode(tmp_path: Path) -> None:
    done = run_program(
        tmp_path,
        """
import numpy as np
import kerneldsl as kd
from kerneldsl.errors import DriverError

@kd.kernel(wraparound=False)
def wild(x, far):
    x[kd.grid(1) + far] = 1

with kd.use("cuda"):
    x = kd.zeros(4)
    wild[1, 1](x, 2**30)
    try:
        kd.synchronize()
    except DriverError as error:
        print(error.name, error)
    try:
        kd.zeros(4)
    except DriverError as error:
        print("again:", error.name)
""",
    )
    assert done.returncode == 0, done.stderr
    assert "CUDA_ERROR_ILLEGAL_ADDRESS" in done.stdout
    assert "debug=True" in done.stdout
    assert "again:" in done.stdout


@pytest.mark.parametrize("visible", ["", "-1"])
def test_no_visible_device_is_explained(tmp_path: Path, visible: str) -> None:
    done = run_program(
        tmp_path,
        f"""
import os
os.environ["CUDA_VISIBLE_DEVICES"] = {visible!r}
import kerneldsl as kd
from kerneldsl.placement.registry import get_target
print(get_target("cuda").unavailable_reason())
print(kd.current_target())
""",
    )
    assert done.returncode == 0, done.stderr
    assert "CUDA_VISIBLE_DEVICES" in done.stdout
    assert done.stdout.splitlines()[-1] == "cpu"
