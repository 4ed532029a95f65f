"""Kernels pickle by module and qualified name, and run in a spawned process."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stress.kernels_to_send import launch, negate, shifted, twice

ROOT = Path(__file__).resolve().parents[2]

_SCRIPT = """
import multiprocessing

import numpy as np

import kerneldsl as kd

FACTOR = 3


@kd.func
def tripled(x):
    return x * FACTOR


@kd.kernel
def from_main(x, out):
    i = kd.grid(1)
    out[i] = tripled(x[i]) + 1


def launch(kernel):
    x, out = np.arange(9), np.zeros(9, np.int64)
    with kd.use("cpu"):
        kernel.forall(9)(x, out)
    return out.tolist()


if __name__ == "__main__":
    expected = [3 * i + 1 for i in range(9)]
    assert launch(from_main) == expected
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(launch, (from_main,)) == expected
        assert pool.map(launch, [from_main, from_main]) == [expected] * 2
    print("right")
"""


@pytest.mark.parametrize("kernel", [twice, shifted], ids=lambda k: k.__name__)
def test_a_module_level_kernel_pickles_to_itself(kernel) -> None:
    assert pickle.loads(pickle.dumps(kernel)) is kernel  # noqa: S301


def test_a_device_function_pickles_to_itself() -> None:
    assert pickle.loads(pickle.dumps(negate)) is negate  # noqa: S301


def test_pickles_are_small() -> None:
    """By module and name: no source travels."""
    launch(twice, 3)
    assert len(pickle.dumps(twice)) < 400


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_runs_in_another_process(method: str) -> None:
    expected = [2 * i + 5 for i in range(9)]
    assert launch(twice, 9) == expected
    with multiprocessing.get_context(method).Pool(1) as pool:
        assert pool.apply_async(launch, (twice, 9)).get(timeout=120) == expected
        assert pool.apply_async(launch, (shifted, 4)).get(timeout=120) == [1, 2, 3, 4]


def test_a_kernel_of_a_script_runs_in_a_spawned_process(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(_SCRIPT)
    done = _run([sys.executable, str(script)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "right"


@pytest.mark.full
def test_a_kernel_of_exec_text_runs_in_a_fresh_process(tmp_path: Path) -> None:
    """As in a notebook: the module is ``__main__``, and no file holds the source."""
    sender = f"""
import linecache, pickle
text = '''import kerneldsl as kd
@kd.kernel
def cell(x, out):
    i = kd.grid(1)
    out[i] = x[i] * SCALE
'''
SCALE = 7
linecache.cache["<cell 1>"] = (len(text), None, text.splitlines(True), "<cell 1>")
exec(compile(text, "<cell 1>", "exec"))
open({str(tmp_path / "kernel.pickle")!r}, "wb").write(pickle.dumps(cell))
"""
    receiver = f"""
import pickle
from tests.stress.kernels_to_send import launch
kernel = pickle.load(open({str(tmp_path / "kernel.pickle")!r}, "rb"))
assert launch(kernel, 4) == [0, 7, 14, 21]
print("right")
"""
    done = _run([sys.executable, "-c", sender])
    assert done.returncode == 0, done.stderr
    done = _run([sys.executable, "-c", receiver])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "right"


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
