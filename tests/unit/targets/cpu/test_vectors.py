"""The CPU target's machine code holds packed vector instructions where the work is regular."""

from __future__ import annotations

import platform
import re

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
