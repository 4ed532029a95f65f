"""Two processes of eight threads each, and a forked child, under every threading layer."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.stress.worker import LAYER_MODULES
from tests.support.extent import IS_QUICK, full_beyond

ROOT = Path(__file__).resolve().parents[2]
#: Environment variable that names the threading layer of the CPU target.
LAYER_VARIABLE = "KERNELDSL_THREADING_LAYER"
_OMP, _TBB = LAYER_MODULES["omp"], LAYER_MODULES["tbb"]
#: Layer asked for ("" lets the target choose), modules that cannot be imported, layers it may use.
CONFIGURATIONS = [
    pytest.param("", (_OMP, _TBB), {"native", "workqueue"}, id="without-libgomp-and-tbb"),
    pytest.param("tbb", (), {"tbb"}, id="tbb"),
    pytest.param("omp", (), {"omp"}, id="omp"),
    pytest.param("workqueue", (), {"workqueue"}, id="workqueue"),
    pytest.param("serial", (), {"serial"}, id="serial"),
]


def _layer_is_missing(layer: str) -> str | None:
    """Say why a layer cannot be had here, by importing it in a process of its own."""
    module = LAYER_MODULES.get(layer)
    if module is None:
        return None
    preload = ""
    if layer == "tbb":
        preload = (
            "import ctypes, glob, sys; "
            "[ctypes.CDLL(p, ctypes.RTLD_GLOBAL) for p in glob.glob(sys.prefix + '/lib/libtbb.so*')"
            "[:1]]; "
        )
    done = subprocess.run(
        [sys.executable, "-c", preload + f"import {module}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return None if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def _run(
    layer: str,
    hidden: tuple[str, ...],
    used: set[str],
    kernels: int,
    launches: int,
    seconds: int,
) -> None:
    reason = _layer_is_missing(layer)
    if reason is not None:
        pytest.skip(f"threading layer {layer!r}: {reason}")
    environment = {k: v for k, v in os.environ.items() if k != LAYER_VARIABLE}
    if layer:
        environment[LAYER_VARIABLE] = layer
    command = [
        *(sys.executable, "-m", "tests.stress.worker"),
        *(str(kernels), str(launches), "8", *hidden),
    ]
    running = [
        subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for process in running:
            output, _ = process.communicate(timeout=seconds)
            assert process.returncode == 0, f"status {process.returncode}\n{output}"
            verdict, found = output.split()[-2:]
            assert verdict == "right", output
            assert found in used
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.communicate()


@pytest.mark.parametrize(
    ("layer", "hidden", "used"), full_beyond(CONFIGURATIONS, CONFIGURATIONS[:1])
)
def test_a_few(layer: str, hidden: tuple[str, ...], used: set[str]) -> None:
    """Four kernels, or in a quick run two, and 200 launches in each process."""
    _run(layer, hidden, used, 2 if IS_QUICK else 4, 200, 240)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("layer", "hidden", "used"), CONFIGURATIONS)
def test_many(layer: str, hidden: tuple[str, ...], used: set[str]) -> None:
    """Twenty kernels and 1000 launches in each process."""
    _run(layer, hidden, used, 20, 1000, 1100)
