"""Square roots that are computed only where the kernel does."""

from __future__ import annotations

import math

import llvmlite.binding as llvm
import numpy as np
import pytest

import kerneldsl as kd
from targets.cuda.compile.square_roots import restore_roots, with_declared_roots
from tests.ptx.helpers import body_of, compile_ptx
from tests.ptx.pass_kernels import artifact_for_pass

_NAME = "guard-roots"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_root_stays_after_the_test_that_it_depends_on(dtype: str) -> None:
    """Golden: a branch, and not a choice."""

    def roots(x, out):
        i = kd.grid(1)
        value = x[i]
        if value > 2:
            value = math.sqrt(value)
        out[i] = value

    body = body_of(compile_ptx(roots, f"{dtype}[::1], {dtype}[::1]"))
    assert "bra" in body[: body.index("sqrt.rn")]
    assert "selp" not in body


def test_without_the_pass_llvm_computes_it_before() -> None:
    body = body_of(artifact_for_pass(_NAME, _NAME))
    assert "sqrt.rn" in body
    assert "bra" not in body


def test_the_optimized_module_calls_the_intrinsic() -> None:
    text = artifact_for_pass(_NAME).code("llvm").decode()
    assert "@llvm.sqrt.f32" in text
    assert "kd.sqrt" not in text


def test_a_module_with_the_intrinsic_inlines_it() -> None:
    """libdevice (seen with CUDA 13.0) has none; another one may."""
    text = """
declare float @kd.sqrt.f32(float)
declare float @llvm.sqrt.f32(float)
define float @both(float %a) {
  %one = call float @kd.sqrt.f32(float %a)
  %other = call float @llvm.sqrt.f32(float %one)
  ret float %other
}
"""
    for source, is_inlined in ((text, True), (text.replace("@llvm.", "@other."), False)):
        module = llvm.parse_assembly(source)
        assert restore_roots(module) is is_inlined
        module.verify()
        assert ("define internal float @kd.sqrt.f32" in str(module)) is is_inlined
        assert "call float @llvm.sqrt.f32(float %a)" in str(module)


def test_an_entry_may_declare_roots_itself() -> None:
    text = 'declare float @"kd.sqrt.f32"(float %".1")\ndeclare double @"kd.sqrt.f64"(double)\n'
    module = llvm.parse_assembly(with_declared_roots(text))
    assert str(module).count("declare") == 2
    assert "memory(none)" in str(module)


def test_fast_arithmetic_keeps_the_approximate_root() -> None:
    def roots(x, out):
        i = kd.grid(1)
        out[i] = math.sqrt(x[i]) if x[i] > np.float32(2) else x[i]

    body = body_of(compile_ptx(roots, "float32[::1], float32[::1]", fastmath=True))
    assert "sqrt.approx.ftz.f32" in body
