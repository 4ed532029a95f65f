"""Narrow floats: native instructions where there are any, else float32's or integer ones."""

from __future__ import annotations

import re

import pytest

import kerneldsl as kd
from tests.ptx.helpers import (
    ARCH_PARAMETERS,
    ASSEMBLED_ARCHS,
    assemble_together,
    body_of,
    compile_ptx,
)

_NAMES = ("float16", "bfloat16")


def chain(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = (a * x[i] + y[i]) / y[i] - x[i]


def root(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] ** 0.5


def _chain(dtype: str, arch: str, **options: bool) -> str:
    signature = f"{dtype}, {dtype}[::1], {dtype}[::1], {dtype}[::1]"
    return body_of(compile_ptx(chain, signature, arch, **options))


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
@pytest.mark.parametrize("dtype", [*_NAMES, "float8_e4m3fn", "float8_e5m2"])
def test_it_assembles(dtype: str, arch: str) -> None:
    one = "[::1]"
    found = [
        compile_ptx(chain, f"{dtype}, {dtype}[:], {dtype}[:], {dtype}[:]", arch),
        compile_ptx(root, f"{dtype}{one}, {dtype}{one}", arch),
        compile_ptx(root, f"float64{one}, {dtype}{one}", arch),
    ]
    if arch in ASSEMBLED_ARCHS:
        assert assemble_together(found, arch) == len(found)


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_float16_has_instructions(arch: str) -> None:
    body = _chain("float16", arch)
    assert body.count("fma.rn.f16") == 1
    assert body.count("sub.f16") == 1
    assert body.count("div.rn.f32") == 1  # there is none of 16 bits
    assert not re.search(r"\b(mul|add|sub)[.a-z]*\.f32", body)


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_without_contraction_each_operation_is_rounded(arch: str) -> None:
    body = _chain("float16", arch, contract=False)
    assert "fma" not in body
    for operation in ("mul.rn.f16", "add.rn.f16", "sub.rn.f16"):  # ptxas might fuse a plain mul.f16
        assert body.count(operation) == 1


@pytest.mark.parametrize("arch", ARCH_PARAMETERS)
def test_bfloat16_is_rounded_by_an_instruction_from_8_0_on(arch: str) -> None:
    body = _chain("bfloat16", arch)
    is_native = int(arch[3:].rstrip("a")) >= 80
    # Once for each of the four operations, and not again for the store.
    assert body.count("cvt.rn.bf16.f32") == 4 * is_native
    assert body.count("setp.nan.f32") == 4 * (not is_native)
    assert "fma" not in body


def test_fast_arithmetic_keeps_conversions_of_nan() -> None:
    body = _chain("bfloat16", "sm_75", fastmath=True)
    assert "div.approx.ftz.f32" in body
    assert body.count("setp.nan") == 4


@pytest.mark.parametrize("dtype", _NAMES)
def test_elements_are_loaded_and_stored_as_16_bits(dtype: str) -> None:
    body = _chain(dtype, "sm_90")
    assert body.count("ld.global.b16") == 2
    assert body.count("st.global.b16") == 1
    assert "ld.param.b16" in body
