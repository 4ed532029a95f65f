"""What the cache knows of linked code."""

from __future__ import annotations

import pytest

import kerneldsl as kd
from kerneldsl.contract import UnusableCodeError
from kerneldsl.errors import ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm
from targets.cuda.compile import linked_modules
from targets.cuda.compile.nvrtc import CudaText, compile_text
from targets.cuda.compile.stored import code_identity, dump, restore

_SOURCE = '#include "part.h"\nextern "C" __device__ float part(float a) { return a * PART; }\n'


def _artifact(link):
    @kd.func(link=link, signature="float32(float32)")
    def part(a):
        return a

    @kd.kernel
    def calls(x):
        x[0] = part(x[0])

    return calls.artifact("float32[::1]", target="cuda", arch="sm_90")


@pytest.fixture
def source(tmp_path):
    (tmp_path / "part.cu").write_text(_SOURCE)
    (tmp_path / "part.h").write_text("#define PART 3.0f\n")
    return tmp_path / "part.cu"


def test_a_key_has_the_included_headers_and_the_compiler(source, monkeypatch):
    specialization = _artifact(source).specialization
    known = code_identity(specialization, "sm_90")
    assert known["NVRTC"]
    source.with_name("part.h").write_text("#define PART 5.0f\n")
    changed = code_identity(specialization, "sm_90")
    assert {name for name in known if known[name] != changed[name]} == {"headers of part"}

    def missing():
        raise ToolMissingError("none")

    monkeypatch.setattr(linked_modules, "nvrtc_identity", missing)
    assert code_identity(specialization, "sm_90") is None


def test_a_changed_header_is_compiled(source):
    assert "0f40400000" in _artifact(source).ptx
    source.with_name("part.h").write_text("#define PART 5.0f\n")
    assert "0f40A00000" in _artifact(source).ptx


def test_a_source_is_compiled_once_for_an_architecture(source, monkeypatch):
    compiled = []

    def count(source, arch, *args, **options):
        compiled.append(arch)
        return compile_text(source, arch, *args, **options)

    monkeypatch.setattr(linked_modules, "compile_text", count)

    @kd.func(link=source, signature="float32(float32)")
    def part(a):
        return a

    @kd.kernel
    def calls(x):
        x[0] = part(x[0])

    for arch in ("sm_90", "sm_80", "sm_90"):
        for signature in ("float32[::1]", "float64[::1]"):
            calls.artifact(signature, target="cuda", arch=arch)
            calls.artifact(signature, target="cuda", arch=arch, forall=1)
    assert compiled == ["sm_90", "sm_80"]
    source.with_name("part.h").write_text("#define PART 7.0f\n")
    calls.artifact("float32[:]", target="cuda", arch="sm_90")
    assert compiled == ["sm_90", "sm_80", "sm_90"]


def test_joined_ptx_is_restored(source):
    made = _artifact(source)
    specialization = made.specialization
    again = restore(specialization, dump(made), "sm_90")
    assert (again.ptx, again.ptx_version) == (made.ptx, made.ptx_version)
    assert made.ptx_version > (8, 0)
    older = {**dump(made), "ptx": made.ptx.replace(".version 9", ".version 2").encode()}
    with pytest.raises(UnusableCodeError):
        restore(specialization, older, "sm_90")


def test_linked_machine_code_is_restored(source):
    text = CudaText(_SOURCE, str(source))
    made = _artifact(compile_text(text, "sm_90", form=CodeForm.CUBIN, is_relocatable=True).code)
    sections = dump(made)
    assert sections["cubin"] == made.image
    assert restore(made.specialization, sections, "sm_90").image == made.image
