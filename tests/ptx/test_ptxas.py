"""The assembler: resources, refusals, and what is said where it is missing."""

from __future__ import annotations

import pytest

import kerneldsl as kd
from kerneldsl.errors import CompileError, ToolMissingError
from targets.cuda.compile import ptxas
from targets.cuda.compile import ptxas as tools
from tests.ptx.helpers import compile_ptx


def heavy(x, out):
    i = kd.grid(1)
    a = kd.local.array(64, kd.float64)
    for k in range(64):
        a[k] = x[(i + k) % x.size]
    total = 0.0
    for k in range(64):
        total += a[k] * a[int(x[k]) % 64]
    out[i] = total


_SIGNATURE = "float64[::1], float64[::1]"


def test_resources() -> None:
    found = compile_ptx(heavy, _SIGNATURE).resources()
    assert found.registers is not None
    assert 8 <= found.registers <= 255
    assert found.local_bytes is not None
    assert found.local_bytes >= 512
    assert found.max_block_threads % 32 == 0


def test_a_limit_on_registers_is_kept() -> None:
    found = compile_ptx(heavy, _SIGNATURE, max_registers=24).resources()
    assert found.registers is not None
    assert found.registers <= 24
    assert found.max_block_threads == 1024


def test_what_ptxas_refuses_is_told() -> None:
    text = compile_ptx(heavy, _SIGNATURE).ptx.replace("ld.global", "ld.nowhere")
    with pytest.raises(CompileError, match="ptxas refuses"):
        ptxas.assemble(text, "sm_75")


def test_an_architecture_that_this_ptxas_does_not_know_is_told() -> None:
    text = compile_ptx(heavy, _SIGNATURE).ptx
    with pytest.raises(ToolMissingError, match="sm_999"):
        ptxas.assemble(text, "sm_999")


def test_a_missing_ptxas_is_told(monkeypatch) -> None:
    ptxas.find_ptxas.cache_clear()
    monkeypatch.setattr(tools, "tool_places", lambda name: iter(()))
    try:
        with pytest.raises(ToolMissingError, match=r"kerneldsl\[dev\]"):
            ptxas.find_ptxas()
    finally:
        ptxas.find_ptxas.cache_clear()


def test_forms_of_an_artifact() -> None:
    artifact = compile_ptx(heavy, _SIGNATURE)
    assert artifact.text("ptx") == artifact.ptx
    assert "define ptx_kernel void @heavy" in artifact.text("llvm")
    assert "def heavy(x, out):" in artifact.text("source")
    with pytest.raises(ValueError, match="'ptx', 'llvm', 'source' and 'sass'"):
        artifact.text("asm")
    assert {"ptx", "sass"} <= set(artifact.forms_at_hand())
    assert {"numba", "link", "llvm"} <= artifact.timings.keys()
