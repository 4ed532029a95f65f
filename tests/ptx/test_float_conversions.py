"""Conversions of floats to integers: the instructions, and stores that stay."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.lowering.float_conversions import FloatConversion, define_conversions
from stdlib_kernels import random
from targets.null.executable import NullExecutable
from tests.ptx.helpers import body_of, compile_ptx


def test_a_conversion_of_a_constant_is_stored() -> None:
    """LLVM's own instruction has no value there, and a store of none is left out."""

    def stores_constants(out):
        i = kd.grid(1)
        out[i] = int(math.inf)
        out[i + 1] = int(math.nan) + 77
        out[i + 2] = np.uint32(-1.0) + 88

    body = body_of(compile_ptx(stores_constants, "int64[::1]"))
    for value in (2**63 - 1, 77, 88):
        assert f", {value};" in body


@pytest.mark.parametrize(
    ("given", "to", "instruction", "beside"),
    [
        ("float32", "int32", "cvt.rzi.s32.f32", ()),
        ("float32", "uint32", "cvt.rzi.u32.f32", ()),
        ("float32", "int64", "cvt.rzi.s64.f32", ("setp.num.f32", "selp")),
        ("float64", "int64", "cvt.rzi.s64.f64", ("setp.num.f64", "selp")),
        ("float64", "uint32", "cvt.rzi.u32.f64", ("setp.num.f64", "selp")),
        ("float32", "int8", "cvt.rzi.s32.f32", ("max.s32", "min.s32")),
        ("float32", "uint16", "cvt.rzi.u32.f32", ("min.u32",)),
    ],
)
def test_instructions(given: str, to: str, instruction: str, beside: tuple[str, ...]) -> None:
    convert = np.dtype(to).type

    def converted(x, out):
        i = kd.grid(1)
        out[i] = convert(x[i])

    body = body_of(compile_ptx(converted, f"{given}[::1], {to}[::1]"))
    assert body.count(instruction) == 1
    for each in ("setp", "selp", "min", "max"):
        wanted = [b for b in beside if b.startswith(each)]
        assert body.count(f"\t{each}.") == len(wanted), body
        assert all(b in body for b in wanted)


def test_other_text_stays() -> None:
    text = 'define void @f() {\n  %a = fptosi half %x to i32\n  ret void\n}\n; "fptosi"'
    assert define_conversions(text, FloatConversion.__repr__) is text


def test_each_function_and_declaration_is_written_once() -> None:
    text = "%a = fptosi double %x to i8\n%b = fptosi double %y to i8\n%c = fptoui float 1.0 to i64"
    written = []

    def write(conversion: FloatConversion) -> str:
        written.append(conversion)
        return "declare void @g()\n" + conversion.function("%result = f")

    found = define_conversions(text, write)
    assert written == [
        FloatConversion("fptosi", "double", 8),
        FloatConversion("fptoui", "float", 64),
    ]
    assert [(c.smallest, c.largest) for c in written] == [(-128, 127), (0, 2**64 - 1)]
    assert found.count("declare void @g()") == 1
    assert "%b = call i8 @kerneldsl.fptosi.double.i8(double %y)\n" in found


@pytest.mark.parametrize(
    ("mask", "less", "kind"),
    [
        (2**31 - 1, 0, "u32"),
        (2**32 - 1, 0, "u32"),
        (2**32 - 1, 2**31, "s32"),
        (2**33 - 1, 0, "u64"),
        (2**32 - 1, 2**31 + 1, "s64"),
        (2**32 - 1, 2**31 - 1, "s64"),
    ],
)
def test_a_number_that_fits_is_converted_from_32_bits(mask: int, less: int, kind: str) -> None:
    def converted(x, out):
        i = kd.grid(1)
        out[i] = (x[i] & mask) - less

    body = body_of(compile_ptx(converted, "int64[::1], float64[::1]"))
    assert re.findall(r"cvt\.rn\.f64\.([us]\d+)", body) == [kind]


def test_a_draw_is_converted_from_32_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[str] = []
    examine = NullExecutable.examine

    def noted(self: NullExecutable, *launched: Any) -> Any:
        found.append(self.artifact.ptx)
        return examine(self, *launched)

    monkeypatch.setattr(NullExecutable, "examine", noted)
    with kd.use("null"):
        random.default_rng(1).random(out=kd.empty(1 << 20, np.float32))
    assert found
    assert not any("f32.u64" in text for text in found)
