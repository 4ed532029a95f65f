"""CUDA C++ in the cache: found by a second process, and compiled again when a header changes."""

from __future__ import annotations

import os
from pathlib import Path

from tests.cache.programs import run_script

PROGRAM = """
import numpy as np
import kerneldsl as kd
from targets.cuda.compile import nvrtc

compile_text = nvrtc.compile_text

compiled = []

def compile_and_note(*args, **options):
    compiled.append(options["expressions"])
    return compile_text(*args, **options)

nvrtc.compile_text = compile_and_note
source = kd.cuda_source("scale.cu", options=kd.CudaOptions(include=["."]))
scale = source.kernel("scale<float>", "float32[::1], int32")
other = source.kernel("scale<double>", "float64[::1], int32")
with kd.use("null"):
    scale.forall(100)(kd.zeros(100, np.float32), 100)
    other.forall(100)(kd.zeros(100, np.float64), 100)
result = [compiled, scale.log, scale.resources(arch="sm_90").registers]
"""
SOURCE = """
#include "factor.h"
template<class T> __global__ void scale(T *x, int n) {
    int unused, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= FACTOR;
}
"""
BOTH = [["scale<float>", "scale<double>"]]


def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    cold = run_script(tmp_path / "script.py", PROGRAM)
    assert cold["result"][0] == BOTH
    assert "never referenced" in cold["result"][1]
    assert (cold["hits"], cold["writes"]) == (0, 3)
    warm = run_script(tmp_path / "script.py")
    assert warm["result"][0] == []
    assert warm["result"][1:] == cold["result"][1:]
    assert (warm["hits"], warm["misses"], warm["writes"]) == (3, {}, 0)
    assert not {"numba", "llvmlite", "cuda.core", "cuda.bindings.nvrtc"} & set(warm["modules"])


def test_a_changed_header_is_a_miss(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    for factor in (2, 3):
        (tmp_path / "factor.h").write_text(f"#define FACTOR {factor}\n")
        changed = run_script(tmp_path / "script.py", PROGRAM)
        assert changed["result"][0] == BOTH
        assert changed["hits"] == 0
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    assert run_script(tmp_path / "script.py")["result"][0] == []


def test_code_that_was_damaged_on_disk_is_compiled_again(tmp_path: Path) -> None:
    (tmp_path / "scale.cu").write_text(SOURCE)
    (tmp_path / "factor.h").write_text("#define FACTOR 2\n")
    run_script(tmp_path / "script.py", PROGRAM)
    folder = Path(os.environ["KERNELDSL_CACHE_DIR"])
    entries = [
        each for each in folder.rglob("*") if each.is_file() and b"\x7fELF" in each.read_bytes()
    ]
    assert len(entries) == 3
    for each in entries:
        data = bytearray(each.read_bytes())
        at = data.index(b"\x7fELF")
        data[at + 64] ^= 0xFF
        each.write_bytes(data)
    again = run_script(tmp_path / "script.py")
    assert again["result"][0] == BOTH
    assert again["hits"] == 0
