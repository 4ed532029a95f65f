"""A package with kernels, built once, and programs that use it in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["LEVELS", "ROOT", "build", "run", "use", "write_package"]

ROOT = Path(__file__).resolve().parents[2]
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")
INIT = """
import kerneldsl as kd

shipped = kd.load_package(__name__)
"""
KERNELS = """
from __future__ import annotations

import math

import numpy as np

import kerneldsl as kd

SECRET = "a line that no kernel needs"


@kd.func
def poly(x):
    return x * x + np.float32(1)


@kd.kernel(signature="float32, float32[::1], float32[::1]")
def axpy(a, x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


@kd.kernel(signature=["float32[::1], float32[::1]", "float64[::1], float64[::1]"])
def waves(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = math.sin(poly(x[i])) ** 3


@kd.kernel(signature="float32[:, ::1]", block=(16, 4))
def turn(x):
    tile = kd.shared.array((4, 16), np.float32)
    row, column = kd.threadIdx.y, kd.threadIdx.x
    tile[row, column] = x[row, column]
    kd.syncthreads()
    x[row, column] = tile[3 - row, 15 - column]
"""
#: Uses the kernels, and prints what the process has done for that.
USE = """
import json, sys, warnings
import numpy as np
import kerneldsl as kd
from kerneldsl.utilities.import_ahead import OWN_KERNEL
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    results = []
    for name in {names!r}:
        package = __import__(name + ".kernels").kernels
        x = np.linspace(0, 3, 100, dtype=np.float32)
        y = np.ones_like(x)
        with kd.use("cpu"):
            package.axpy.forall(x.size)(np.float32(2), x, y)
            assert np.array_equal(y, 2 * x + 1), y
            package.waves.forall(x.size)(x, y)
            assert np.allclose(y, np.sin(x * x + 1) ** 3, atol=1e-5), y
        results.append(float(y.sum()))
print(json.dumps({{
    "results": results,
    "warnings": [str(each.message) for each in caught],
    "modules": [name for name in ("numba", "llvmlite") if name in sys.modules],
    "parsed": "kerneldsl.frontend.normalize" in sys.modules,
    "of_own_kernels": [name for name in OWN_KERNEL if name in sys.modules],
    "cache": kd.cache.stats().to_dict(),
}}))
"""


def write_package(folder: Path, name: str = "mypkg", *, strict: bool = False) -> Path:
    """Write the package's sources into a folder; return the package."""
    package = folder / name
    package.mkdir(parents=True)
    init = INIT.replace("__name__", "__name__, strict=True") if strict else INIT
    (package / "__init__.py").write_text(init)
    (package / "kernels.py").write_text(KERNELS)
    return package


def run(text: str, path: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with packages on its path, with an empty cache."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_CACHE")}
    cache = {"KERNELDSL_CACHE": "off"}
    return subprocess.run(
        [sys.executable, "-c", text],
        env={**kept, **cache, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}", **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def use(path: Path | str, *names: str, **environment: str) -> dict[str, Any]:
    """Use the kernels of packages, and return the report of the process."""
    done = run(USE.format(names=names or ("mypkg",)), path, **environment)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def build(package: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Build a package with the command, given further options."""
    done = subprocess.run(
        [sys.executable, "-m", "kerneldsl", "build", str(package), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done
