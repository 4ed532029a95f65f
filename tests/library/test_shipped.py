"""The library uses the kernels that its wheel ships, and compiles them where it ships none."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import stdlib_kernels

ROOT = Path(__file__).parents[2]
PACKAGES = ("kerneldsl", "targets", "stdlib_kernels")
LEVEL = {"x86_64": "x86-64-v2"}.get(platform.machine(), "aarch64")
#: The calls with bounds on their first times (``benchmarks/first_calls.py``).
CALLS = """
import numpy as np
from stdlib_kernels import argmax, cumsum, histogram, softmax, sort, sum, var

x = np.arange(100_000, dtype=np.float32) % 100
found = [sum(x), var(x), argmax(x), cumsum(x)[-1], sort(x)[-1], histogram(x, 64)[0][0]]
found.append(softmax(x.reshape(100, 1000))[0, 99])
"""
USE = f"""
import json, sys
import kerneldsl as kd
with kd.use("cpu"):
    {CALLS.strip().replace(chr(10), chr(10) + "    ")}
needless = ("numba", "kerneldsl.frontend.normalize")
print(json.dumps([
    list(map(float, found)),
    [name for name in needless if name in sys.modules],
    kd.cache.stats().to_dict()["misses"],
]))
"""


def _run(*arguments: str, path: Path, cache: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": str(path), "KERNELDSL_CACHE_DIR": str(cache)},
        cwd=path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_first_call_finds_what_the_package_ships(tmp_path: Path) -> None:
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "_kernels")
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    (tmp_path / "trace.py").write_text(CALLS)
    command = ["-m", "kerneldsl", "build", "stdlib_kernels", "--trace", "trace.py", "--cpu", LEVEL]
    _run(*command, "--json", path=tmp_path, cache=tmp_path / "cache")
    assert (tmp_path / "stdlib_kernels" / "_kernels" / "manifest.json").is_file()
    used = _run("-c", USE, path=tmp_path, cache=tmp_path / "empty")
    found, imported, misses = json.loads(used)
    x = np.arange(100_000, dtype=np.float32) % 100
    powers = np.exp(x.reshape(100, 1000)[0] - 99)
    counts = np.histogram(x, 64)[0]
    expected = [x.sum(), x.var(), 99, x.sum(), 99, counts[0], (powers / powers.sum())[99]]
    assert np.allclose(found, expected, rtol=1e-5)
    assert (imported, misses) == ([], {})


def test_the_wheel_includes_what_git_ignores(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel").WheelBuilder
    for name in (*PACKAGES, "kerneldsl_demo"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "kerneldsl" / "_version.py", tmp_path / "kerneldsl" / "_version.py")
    kernels = tmp_path / "stdlib_kernels" / "_kernels"
    kernels.mkdir()
    (kernels / "manifest.json").touch()
    included = {each.relative_path for each in builder(str(tmp_path)).recurse_included_files()}
    assert "stdlib_kernels/_kernels/manifest.json" in included


def _library_calls() -> ModuleType:
    spec = importlib.util.spec_from_file_location("library_calls", ROOT / ".ci/library_calls.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Recorder:
    """Stands in for the library, and notes the names of the functions that are called."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        assert name in stdlib_kernels.__all__
        self.called.add(name)
        return lambda array, *args, **options: array


def test_the_traced_script_calls_what_is_promised(monkeypatch: pytest.MonkeyPatch) -> None:
    script, recorder = _library_calls(), _Recorder()
    monkeypatch.setattr(script, "sk", recorder)
    script.call_on_vector(np.ones(1000), is_float=True)
    script.call_on_matrix(np.ones((10, 100)), is_float=True)
    promised = {"sum", "var", "argmax", "cumsum", "sort", "histogram", "softmax"}
    assert promised <= recorder.called
