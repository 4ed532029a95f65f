"""The CPU target's machine code holds packed vector instructions where the work is regular."""

from __future__ import annotations

import math
import platform
import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd

#: Packed single precision: on x86-64 in 16, 32 or 64 byte registers, on AArch64 four lanes.
PATTERNS = {
    "x86_64": r"\bv?(?:mul|add|fm(?:add|sub)\d*)ps\b[^\n]*%[xyz]mm",
    "AMD64": r"\bv?(?:mul|add|fm(?:add|sub)\d*)ps\b[^\n]*%[xyz]mm",
    "aarch64": r"\bf(?:mul|add|mla)(?:\.4s|\s+v\d+\.4s)",
    "arm64": r"\bf(?:mul|add|mla)(?:\.4s|\s+v\d+\.4s)",
}


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def tree_reduction(x, out):
    s = kd.shared.array(256, np.float32)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i] if i < x.size else np.float32(0)
    kd.syncthreads()
    stride = kd.blockDim.x // 2
    while stride > 0:
        if t < stride:
            s[t] += s[t + stride]
        kd.syncthreads()
        stride //= 2
    if t == 0:
        out[kd.blockIdx.x] = s[0]


def _packed(asm: str) -> list[str]:
    pattern = PATTERNS.get(platform.machine())
    if pattern is None:
        pytest.skip(f"no pattern of vector instructions for {platform.machine()}")
    return re.findall(pattern, asm)


@pytest.mark.parametrize("options", [{"forall": 1}, {"block": 256}], ids=["forall", "block"])
def test_axpy(options: dict[str, int]) -> None:
    asm = axpy.asm("float32, float32[::1], float32[::1], float32[::1]", **options)
    assert len(_packed(asm)) >= 2


def test_tree_reduction() -> None:
    asm = tree_reduction.asm("float32[::1], float32[::1]", block=256)
    assert _packed(asm)


@pytest.mark.parametrize(
    "function",
    [np.sqrt, np.floor, np.ceil, np.rint, np.trunc, math.sqrt, math.exp, math.log, math.sin],
    ids=lambda f: f"{type(f).__name__}_{f.__name__}",
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_function_is_no_call_for_each_element(function: Any, dtype: str) -> None:
    @kd.kernel
    def mapped(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    asm = mapped.asm(f"{dtype}[::1], {dtype}[::1]", forall=1)
    assert not re.search(rf"\b{function.__name__}f?(@PLT)?\b", asm)
    kind = {"float32": "s", "float64": "d"}[dtype]
    patterns = {
        "x86_64": rf"\bv?(?:sqrt|round|rndscale|fmadd\w+|mul)p{kind}\b[^\n]*%[xyz]mm",
        "aarch64": r"\b(?:fsqrt|frint.|fmla|fmul)(?:\.\d[sd]|\s+v\d+\.\d[sd])",
    }
    pattern = patterns.get(platform.machine())
    if pattern is None:
        pytest.skip(f"no pattern of vector instructions for {platform.machine()}")
    assert re.search(pattern, asm)
