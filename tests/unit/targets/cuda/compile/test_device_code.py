"""A program's own CUDA C++, PTX and cubins as code of a kernel: compiled, checked, stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kerneldsl.analysis.analyze import analyze
from kerneldsl.cache.key import key_of
from kerneldsl.contract import Specialization, UnusableCodeError
from kerneldsl.contract.abi import LaunchMode
from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.contract.device_code import CodeModule
from kerneldsl.errors import ArgumentTypeError, DeviceCodeError
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.language.signatures import parse_signature
from targets.cuda.compile import nvrtc
from targets.cuda.compile.code_artifact import CodeArtifact
from targets.cuda.compile.fatbin import make_fatbin
from targets.cuda.compile.nvrtc import CudaText, compile_text
from targets.cuda.compile.ptx_compiler import PtxCompiler
from targets.cuda.compile.ptxas import assemble
from targets.cuda.compile.stored import dump_code

SAXPY = """
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
template<class T> __global__ void scale(T factor, T *x) { x[threadIdx.x] *= factor; }
"""
SIGNATURE = "float32, float32[::1], float32[::1], int32"
COMPILER = PtxCompiler("cuda")


def _four(a, x, y, n):
    pass


def _two(factor, x):
    pass


#: What a module may be.
FORMS = [form for form in CodeForm if form is not CodeForm.LTO_IR]


def _module(form: CodeForm = CodeForm.CUDA, text: str = SAXPY, **fields: Any) -> CodeModule:
    if form is CodeForm.CUDA:
        return CodeModule(form, "<saxpy>", text.encode(), **fields)
    if form is CodeForm.FATBIN:
        cubins = {arch: _compiled(text, CodeForm.CUBIN, arch) for arch in ("sm_80", "sm_90")}
        ptx = {"sm_90": _compiled(text, CodeForm.PTX, "sm_90").decode()}
        return CodeModule(form, f"saxpy.{form}", make_fatbin(cubins, ptx), **fields)
    made = compile_text(CudaText(text, "<saxpy>"), "sm_90", form=form)
    return CodeModule(form, f"saxpy.{form}", made.code, **fields)


def _compiled(text: str, form: CodeForm, arch: str) -> bytes:
    return compile_text(CudaText(text, "<saxpy>"), arch, form=form).code


def _specialize(
    module: CodeModule,
    entry: str = "saxpy",
    signature: str = SIGNATURE,
    arch: str | None = "sm_90",
    **fields: Any,
) -> Specialization:
    unit = make_unit(_four if signature.count(",") == 3 else _two)
    kinds = parse_signature(signature)
    code = module.declare(entry)
    return Specialization(unit, analyze(unit), kinds, arch=arch, code=code, **fields)


def _compile(module: CodeModule, *args: Any, **fields: Any) -> CodeArtifact:
    artifact = COMPILER.compile(_specialize(module, *args, **fields))
    assert isinstance(artifact, CodeArtifact)
    return artifact


@pytest.mark.parametrize("form", FORMS)
def test_each_form_becomes_an_artifact(form: CodeForm) -> None:
    artifact = _compile(_module(form))
    assert artifact.entry_name == "saxpy"
    assert artifact.passes_addresses
    # a, the address of x, that of y, and n; the extents of x and y are left out
    names = [artifact.layout.parameters[i].name for i in (0, 1, 3, 5)]
    assert names == ["a", "x.data", "y.data", "n"]
    assert artifact.offsets == tuple(artifact.layout.parameters[i].offset for i in (0, 1, 3, 5))
    registers = artifact.resources().registers
    assert registers is not None
    assert 8 <= registers <= 32
    assert artifact.code("cubin").startswith(b"\x7fELF")


def test_what_forall_adds_is_left_out() -> None:
    with_extent = _compile(_module(), mode=LaunchMode(1))
    assert with_extent.layout.parameters[-1].name.endswith("extent[0]")
    assert with_extent.offsets == _compile(_module()).offsets


def test_a_complex_number_and_a_truth_value_are_one_parameter_each() -> None:
    text = 'extern "C" __global__ void f(float2 z, bool b) {}'
    artifact = _compile(_module(text=text), "f", "complex64, bool")
    assert artifact.offsets == (0, 8)


def test_a_template_is_instantiated() -> None:
    artifact = _compile(_module(), "scale<double>", "float64, float64[::1]")
    assert artifact.entry_name == "_Z5scaleIdEvT_PS0_"
    assert "mul.f64" in artifact.text("ptx").replace("rn.", "")


def test_kernels_of_a_source_are_compiled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def compile_and_count(*args: Any, **options: Any) -> Any:
        calls.append(options["expressions"])
        return compile_text(*args, **options)

    monkeypatch.setattr(nvrtc, "compile_text", compile_and_count)
    module = _module()
    both = [_specialize(module), _specialize(module, "scale<float>", "float32, float32[::1]")]
    images = [COMPILER.compile(each).image_parts for each in both]  # type: ignore[attr-defined]
    assert images[0] is images[1]
    assert calls == [("saxpy", "scale<float>")]


def test_an_older_nvrtc_makes_ptx_for_the_newest_architecture_it_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(nvrtc, "supported_architectures", lambda: (75, 80))
    artifact = _compile(_module())
    assert ".target sm_80" in artifact.text("ptx")
    assert artifact.arch == "sm_90"
    assert artifact.resources() == assemble(artifact.ptx, "sm_90").resources["saxpy"]


# ------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("signature", "told"),
    [
        ("float32, float32[::1]", "passes 2 parameters"),
        (
            "float64, float32[::1], float32[::1], int32",
            "passes 8 bytes as parameter 1 (float64)",
        ),
        ("float32, float32[::1], float32[::1], int64", "passes 8 bytes as parameter 4 (int64)"),
        ("float32, float32[::1], int32, int32", "passes 4 bytes as parameter 3 (int32)"),
    ],
)
def test_a_wrong_signature(form: CodeForm, signature: str, told: str) -> None:
    with pytest.raises(ArgumentTypeError) as caught:
        _compile(_module(form), "saxpy", signature)
    assert told in str(caught.value)
    assert "it declares 4 parameters of 4, 8, 8, 4 bytes" in str(caught.value)


@pytest.mark.parametrize("form", [CodeForm.PTX, CodeForm.CUBIN, CodeForm.FATBIN])
def test_a_missing_entry(form: CodeForm) -> None:
    with pytest.raises(DeviceCodeError) as caught:
        _compile(_module(form), "daxpy")
    assert f"saxpy.{form} has no kernel daxpy. Its kernels are saxpy" in str(caught.value)


def test_a_cubin_for_another_architecture() -> None:
    artifact = _compile(_module(CodeForm.CUBIN))
    for arch in ("sm_90",):
        artifact.require(arch, (13, 0))
    for arch in ("sm_80", "sm_100"):
        with pytest.raises(DeviceCodeError) as caught:
            artifact.require(arch, (13, 0))
        told = f"saxpy.cubin is a cubin for sm_90, and the device is {arch}"
        assert told in str(caught.value)


def test_ptx_for_a_newer_architecture_or_driver() -> None:
    module = _module(CodeForm.PTX)
    newer = replace_text(module, ".version", ".version 9.9")
    artifact = _compile(newer)
    artifact.require("sm_120", (14, 0))
    with pytest.raises(DeviceCodeError) as caught:
        artifact.require("sm_90", (13, 0))
    told = str(caught.value)
    assert "saxpy.PTX is PTX 9.9. The driver supports CUDA 13.0, and PTX up to 9.0" in told
    with pytest.raises(DeviceCodeError, match="is PTX for sm_90, and the device is sm_80"):
        _compile(module).require("sm_80", (13, 0))
    _compile(replace_text(module, ".target", ".target sm_52")).require("sm_80", (13, 0))


def replace_text(module: CodeModule, head: str, line: str) -> CodeModule:
    lines = module.text.splitlines()
    text = "\n".join(line if each.startswith(head) else each for each in lines)
    return replace(module, contents=text.encode())


@pytest.mark.parametrize("form", [CodeForm.PTX, CodeForm.CUBIN, CodeForm.FATBIN])
def test_contents_that_are_neither(form: CodeForm) -> None:
    told = "neither PTX nor a cubin" if form is CodeForm.CUBIN else f"not (a whole )?{form}"
    with pytest.raises(DeviceCodeError, match=f"saxpy is {told}"):
        _compile(CodeModule(form, "saxpy", b"\xff\xfe neither"))


def test_an_assemblers_complaint_is_the_programs_error() -> None:
    module = _module(CodeForm.PTX)
    damaged = replace(module, contents=module.contents.replace(b"fma.rn", b"fma.xx"))
    with pytest.raises(DeviceCodeError) as caught:
        _compile(damaged).resources()
    assert "saxpy of saxpy.PTX cannot be loaded: ptxas refuses the PTX" in str(caught.value)
    assert "ptxas kernel.ptx, line " in str(caught.value)  # without the temporary folder


# ------------------------------------------------------------------------- the cache


def _key(specialization: Specialization) -> Any:
    identity = COMPILER.code_identity(specialization)
    assert identity is not None
    return key_of(specialization, "cuda", identity).digest


def test_the_key_is_of_source_headers_options_and_architecture(tmp_path: Path) -> None:
    header = tmp_path / "own.h"
    header.write_text("#define A 1")
    text = '#include "own.h"\n' + SAXPY
    options = CudaOptions(include=[tmp_path])

    def key(text: str = text, arch: str = "sm_90", **changed: Any) -> Any:
        return _key(_specialize(_module(text=text, options=replace(options, **changed)), arch=arch))

    first = key()
    assert key() == first
    others = [
        key(text + "\n"),
        key(arch="sm_80"),
        key(opt_level=1),
        key(max_registers=32),
        key(lineinfo=True),
        key(defines={"A": 2}),
        key(std="c++20"),
    ]
    header.write_text("#define A 2")
    others.append(key())
    assert len({first, *others}) == 1 + len(others)


def test_the_key_is_of_all_kernels_of_the_source() -> None:
    module = _module()
    alone = _key(_specialize(module))
    assert _key(_specialize(module, "scale<float>", "float32, float32[::1]")) != alone
    assert _key(_specialize(module)) != alone


def test_what_needs_no_compiling_or_cannot_be_known_is_not_stored() -> None:
    assert COMPILER.code_identity(_specialize(_module(CodeForm.PTX))) is None
    unknown = _module(text="#define NAME(x) <x>\n#define IT NAME(a.h)\n#include IT\n" + SAXPY)
    assert COMPILER.code_identity(_specialize(unknown)) is None


def test_code_is_stored_and_found() -> None:
    made = _compile(_module(text=SAXPY.replace("{", "{ int unused;", 1)))
    sections = COMPILER.dump(made)
    assert sections is not None
    again = COMPILER.restore(_specialize(_module()), sections)
    assert isinstance(again, CodeArtifact)
    assert again.image == made.image
    assert again.entry_name == made.entry_name
    assert again.image_parts.log == made.image_parts.log != ""


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": b"[]"},
        {"metadata": b'{"form": "NOTHING", "names": {}, "log": "", "timings": {}}'},
        {"metadata": b'{"form": "PTX", "names": {}, "log": "", "timings": {}}'},
        {"code": b"\x7fELF"},
    ],
)
def test_stored_code_that_cannot_be_read(change: dict[str, bytes]) -> None:
    sections = dump_code(_compile(_module()))
    with pytest.raises(UnusableCodeError):
        COMPILER.restore(_specialize(_module()), {**sections, **change})


def test_a_cubin_is_for_the_architecture_that_is_named() -> None:
    with pytest.raises(DeviceCodeError) as caught:
        COMPILER.compile(_specialize(_module(CodeForm.CUBIN), arch="sm_80"))
    assert "saxpy.cubin is a cubin for sm_90, and the device is sm_80" in str(caught.value)
    assert COMPILER.compile(_specialize(_module(CodeForm.CUBIN), arch=None))  # to look at


MIXED = """
extern "C" __global__ void mixed(int a, float x, long long y, double n) {}
template<class T> __global__ void scaled(T factor, const T *x) {}
"""


@pytest.mark.parametrize("form", [CodeForm.CUDA, CodeForm.PTX])
@pytest.mark.parametrize(
    ("signature", "told"),
    [
        ("int32, float32, int64, float64", ""),
        ("uint32, float32, uint64, float64", ""),
        ("int32, float32, float32[::1], float64", ""),  # an address is an integer
        ("float32, float32, int64, float64", "passes float32 as parameter 1. In "),
        ("int32, int32, int64, float64", "passes int32 as parameter 2. In "),
        ("int32, float32, float64, float64", "it is no float, of 64 bits. Name the types"),
        ("int32, float32, int64, int64", "it is a float of 64 bits. Name the types"),
        ("int32, float32, int64, float32[::1]", "it is a float of 64 bits. Name the types"),
    ],
)
def test_floats_and_integers_are_told_apart(form: CodeForm, signature: str, told: str) -> None:
    module = _module(form, MIXED)
    if not told:
        _compile(module, "mixed", signature)
        return
    with pytest.raises(ArgumentTypeError) as caught:
        _compile(module, "mixed", signature)
    assert told in str(caught.value)


def test_floats_of_a_template_are_told_apart_also_in_the_cache() -> None:
    module = _module(text=MIXED)
    right = _specialize(module, "scaled<float>", "float32, float32[::1]")
    stored = COMPILER.dump(COMPILER.compile(right))
    assert stored is not None
    assert COMPILER.restore(right, stored)
    wrong = _specialize(module, "scaled<float>", "int32, float32[::1]")
    for read in (COMPILER.compile, lambda each: COMPILER.restore(each, stored)):
        with pytest.raises(ArgumentTypeError, match="passes int32 as parameter 1"):
            read(wrong)
