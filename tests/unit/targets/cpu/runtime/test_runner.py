"""One function runs the pieces of all kernels; a library for C has its own."""

from __future__ import annotations

import platform
import re
import sys

import numpy as np
import pytest

import kerneldsl as kd
from targets.cpu.codegen.levels import LEVELS
from targets.cpu.runtime.linking import undefined_symbols
from targets.cpu.runtime.native_tables import RUNNER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="object code is of Linux alone")


@kd.func
def scaled(a, x):
    return a * x + 1


@kd.kernel
def scale(a, x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = scaled(a, x[i])


def compiled(arch: str | None = None) -> bytes:
    kernel = scale.artifact("float64, float64[::1]", forall=1, target="cpu", arch=arch)
    code = kernel.compiled.library.object_code()
    assert code is not None
    return code


def test_kernels_share_the_function() -> None:
    assert RUNNER in undefined_symbols(compiled())


def test_code_for_other_machines_has_its_own() -> None:
    level = next(name for name, each in LEVELS.items() if each.machine == platform.machine())
    assert RUNNER not in undefined_symbols(compiled(level))


def test_what_is_inlined_is_compiled_once() -> None:
    """Of a small kernel the entry and the function that unpacks its arguments are left."""
    text = scale.llvm("float64, float64[::1]", forall=1, target="cpu")
    defined = re.findall(r"^define .*@([^\s(]+)\(", text, re.MULTILINE)
    assert [name.rpartition(".")[2].strip('"') for name in defined] == ["entry", "piece"]


def test_it_runs_any_number_of_steps() -> None:
    for size in (0, 1, 1000, 300_000):
        x = np.arange(float(size))
        with kd.use("cpu"):
            scale.forall(size)(2.0, x)
        assert (x == 2.0 * np.arange(float(size)) + 1).all()
