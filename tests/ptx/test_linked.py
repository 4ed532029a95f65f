"""Kernels that are linked with PTX, CUDA C++, LTO-IR and cubins, without a GPU."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.errors import DeviceCodeError, KernelTypingError, ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm
from targets.cuda.compile import linker
from targets.cuda.compile.nvrtc import CudaText, compile_text
from targets.cuda.compile.ptxas import assemble, find_ptxas
from tests.support.linked_code import CUDA, PTX

_WEIGH = "float32(float32, float32)"
_ADD_TO = "void(float64[::1], int64, float64)"
_ARRAYS = "float32[::1], float32[::1]"


def weighing(link, signature=_WEIGH, **options):
    """Return a kernel that calls ``weigh`` of some code."""

    @kd.func(link=link, signature=signature, **options)
    def weigh(a, b):
        return a * b + 0.25

    @kd.kernel
    def weighs(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = weigh(x[i], 3)

    return weighs


@pytest.fixture(scope="module")
def cuda_file(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("code") / "weigh.cu"
    path.write_text(CUDA)
    return path


def _compiled(form: CodeForm, arch: str = "sm_90", text: str = CUDA) -> bytes:
    return compile_text(CudaText(text, "<weigh>"), arch, form=form, is_relocatable=True).code


def _cubin() -> bytes:
    return _compiled(CodeForm.CUBIN)


# -- what is linked ---------------------------------------------------------------------------


@pytest.mark.parametrize("arch", ["sm_75", "sm_90", "sm_120"])
@pytest.mark.parametrize("form", ["ptx file", "ptx bytes", "cuda"])
def test_the_kernel_and_the_function_are_one_module(form, arch, tmp_path, cuda_file):
    path = tmp_path / "weigh.ptx"
    path.write_bytes(PTX)
    link = {"ptx file": path, "ptx bytes": PTX, "cuda": cuda_file}[form]
    ptx = weighing(link).ptx(_ARRAYS, arch=arch)
    assert "{ // weigh" in ptx
    assert ".extern .func" not in ptx
    assert "kernel_of_its_own" not in ptx
    assert re.findall(r"\.entry (\w+)", ptx) == ["weighs"]
    assembled = assemble(ptx, arch)
    assert list(assembled.resources) == ["weighs"]
    assert assembled.resources["weighs"].local_bytes == 0  # arguments are in registers


def test_the_version_of_ptx_is_the_newest(cuda_file):
    versions = [re.search(r"\.version (\S+)", PTX.decode())[1]]
    kernel = weighing(PTX)
    versions.append(re.search(r"\.version (\S+)", kernel.ptx(_ARRAYS, arch="sm_75"))[1])
    versions.append(
        re.search(r"\.version (\S+)", weighing(cuda_file).ptx(_ARRAYS, arch="sm_75"))[1]
    )
    numbers = [tuple(map(int, version.split("."))) for version in versions]
    assert numbers == sorted(numbers)
    assert numbers[2] > numbers[1]


def test_two_functions_of_one_file_are_linked_once(cuda_file):
    @kd.func(link=cuda_file, signature=_WEIGH)
    def weigh(a, b):
        return a * b + 0.25

    @kd.func(link=cuda_file, signature="bool(int64)")
    def is_even(n):
        return n % 2 == 0

    @kd.kernel
    def both(x):
        i = kd.grid(1)
        if is_even(i):
            x[i] = weigh(x[i], x[i])

    ptx = both.ptx("float32[::1]", arch="sm_90")
    assert len(re.findall(r"\.func .*times", ptx)) == 1
    assert "{ // weigh" in ptx
    assert "{ // is_even" in ptx
    assemble(ptx, "sm_90")


def test_a_kernel_may_have_the_name_of_its_function():
    @kd.func(link=PTX, signature=_WEIGH, name="weigh")
    def weigh_of_ptx(a, b):
        return a * b + 0.25

    @kd.kernel
    def weigh(x):
        x[0] = weigh_of_ptx(x[0], x[1])

    ptx = weigh.ptx("float32[::1]", arch="sm_90")
    assert ".entry weigh_kernel(" in ptx
    assemble(ptx, "sm_90")


def test_options_reach_the_compiler_of_cuda(tmp_path):
    path = tmp_path / "weigh.cu"
    path.write_text(
        '#include "part.h"\nextern "C" __device__ float weigh(float a, float b)'
        "{ return a * b + PART + WIDTH; }"
    )
    (tmp_path / "part.h").write_text("#define PART 0.5f\n")
    options = CudaOptions(defines={"WIDTH": "1024.0f"})
    ptx = weighing(path, options=options).ptx(_ARRAYS, arch="sm_90")
    assert "0f44800000" in ptx
    assert "0f3F000000" in ptx


@pytest.mark.parametrize("form", [CodeForm.CUBIN, CodeForm.LTO_IR])
def test_compiled_code_is_linked_to_a_cubin(form):
    kernel = weighing(_compiled(form, text=CUDA[: CUDA.index("__global__")]))
    artifact = kernel.artifact(_ARRAYS, target="cuda", arch="sm_90")
    assert ".extern .func" in artifact.ptx
    image = artifact.image
    assert image.startswith(b"\x7fELF")
    assert b"weighs" in image
    assert artifact.code("cubin") is image
    assert artifact.resources().registers > 0


def test_a_fat_binary_is_linked(tmp_path):
    code = tmp_path / "weigh.cubin"
    code.write_bytes(_cubin())
    target = tmp_path / "weigh.fatbin"
    tool = find_ptxas().with_name("fatbinary")
    image = f"--image3=kind=elf,sm=90,file={code}"
    subprocess.run([tool, "-64", f"--create={target}", "--device-c", image], check=True)
    artifact = weighing(target).artifact(_ARRAYS, target="cuda", arch="sm_90")
    assert artifact.image.startswith(b"\x7fELF")


def test_one_kernel_takes_code_of_several_forms():
    @kd.func(link=PTX, signature="bool(int64)", pure=True)
    def is_even(n):
        return n % 2 == 0

    def linked(form, name):
        text = f'extern "C" __device__ float {name}(float a) {{ return a * a; }}'

        @kd.func(link=_compiled(form, text=text), signature="float32(float32)", name=name)
        def square(a):
            return a * a

        return square

    square, squared = linked(CodeForm.CUBIN, "square"), linked(CodeForm.LTO_IR, "squared")

    @kd.kernel
    def both(x):
        i = kd.grid(1)
        if is_even(i):
            x[i] = square(x[i]) + squared(x[i])

    artifact = both.artifact("float32[::1]", target="cuda", arch="sm_90")
    assert artifact.image.startswith(b"\x7fELF")


def test_lines_of_the_kernel_stay():
    @kd.func(link=PTX, signature=_WEIGH)
    def weigh(a, b):
        return a * b + 0.25

    @kd.kernel(lineinfo=True)
    def weighs(x, out):
        i = kd.grid(1)
        if i < out.size:
            out[i] = weigh(x[i], 3)

    ptx = weighs.ptx(_ARRAYS, arch="sm_90")
    assert re.search(r"\.loc\s+\d+ \d+", ptx)
    assert ".file" in ptx
    assemble(ptx, "sm_90")


def test_pure_calls_are_merged_and_others_are_not():
    def calls(**options):
        @kd.func(link=PTX, signature="bool(int64)", **options)
        def is_even(n):
            return n % 2 == 0

        @kd.kernel
        def twice(x):
            i = kd.grid(1)
            x[i] = is_even(i) + is_even(i)

        return twice.ptx("int32[::1]", arch="sm_90").count("{ // is_even")

    assert calls(pure=True) == 1
    assert calls() == 2


# -- mistakes ---------------------------------------------------------------------------------


def _refusal(link, signature=_WEIGH, arch="sm_90", kind=DeviceCodeError, **options) -> str:
    with pytest.raises(kind) as caught:
        weighing(link, signature, **options).artifact(_ARRAYS, target="cuda", arch=arch).image
    assert caught.value.where is None or Path(caught.value.where.filename).is_file()
    return str(caught.value)


def test_a_syntax_error_is_shown_in_the_users_file(tmp_path):
    path = tmp_path / "weigh.cu"
    path.write_text('extern "C" __device__ float weigh(float a, float b)\n{\n  return a * c;\n}\n')
    with pytest.raises(DeviceCodeError) as caught:
        weighing(path).ptx(_ARRAYS, arch="sm_90")
    where = caught.value.where
    assert (where.filename, where.lineno, where.col_offset) == (str(path), 3, 13)
    assert 'identifier "c" is undefined' in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 10


def test_a_missing_header(tmp_path):
    path = tmp_path / "weigh.cu"
    path.write_text('#include "nowhere.h"\n')
    assert "nowhere.h" in _refusal(path)


def test_a_missing_function(cuda_file):
    said = _refusal(PTX, name="wiegh")
    assert "the code of weigh has no function wiegh" in said
    assert "times, weigh, is_even, narrow, add_to, swap" in said
    mangled = CUDA.replace('extern "C" {', "").replace("q = old; }\n}", "q = old; }")
    said = _refusal(_compiled(CodeForm.PTX, text=mangled))
    assert 'write extern "C" __device__ before the function' in said
    said = _refusal(PTX, name="kernel_of_its_own")
    assert "is a kernel (.entry)" in said
    said = _refusal(_cubin(), name="wiegh")
    assert "wiegh" in said
    assert "nvJitLink" in said


@pytest.mark.parametrize(
    ("signature", "found"),
    [
        ("float64(float32, float32)", "(32 bits, 32 bits) -> 64 bits"),
        ("float32(float32, int64)", "(32 bits, 64 bits) -> 32 bits"),
        ("void(float32, float32)", "(32 bits, 32 bits) -> nothing"),
    ],
)
def test_a_signature_of_other_widths(signature, found):
    @kd.func(link=PTX, signature=signature)
    def weigh(a, b):
        if signature is None:  # a body that fits either signature is not compiled
            return a

    del weigh

    def body(a, b):
        return a

    def nothing(a, b):
        pass

    function = nothing if signature.startswith("void") else body
    function.__name__ = "weigh"
    weigh = kd.func(link=PTX, signature=signature)(function)

    @kd.kernel
    def calls(x):
        weigh(x[0], 1)

    with pytest.raises(DeviceCodeError) as caught:
        calls.ptx("float32[::1]", arch="sm_90")
    said = str(caught.value)
    assert f"is declared as {signature}, which is {found}" in said
    assert "weigh in the code of weigh is (32 bits, 32 bits) -> 32 bits" in said


def test_a_signature_of_other_arity():
    @kd.func(link=PTX, signature="float32(float32)")
    def weigh(a):
        return a

    @kd.kernel
    def calls(x):
        x[0] = weigh(x[0])

    with pytest.raises(DeviceCodeError, match=r"which is \(32 bits\) -> 32 bits"):
        calls.ptx("float32[::1]", arch="sm_90")


def test_structures_by_value():
    text = """
    struct Pair { float a, b; };
    extern "C" __device__ float weigh(Pair pair, float b) { return pair.a * pair.b + b; }
    """
    assert "(a structure, 32 bits) -> 32 bits" in _refusal(_compiled(CodeForm.PTX, text=text))


def test_code_for_newer_devices():
    said = _refusal(_compiled(CodeForm.PTX, "sm_100"))
    assert "is PTX for sm_100, and the kernel is compiled for sm_90" in said


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (PTX[: PTX.index(b"swap") + 60], "ends in the middle of a statement"),
        (b".version 6.3\n.address_size 64\n", "no .version and .target"),
        (b".version 6.3\n.target sm_50\n.address_size 32\n", "do not have 64 bits"),
        (PTX + b"}", "a brace that nothing opens"),
    ],
)
def test_ptx_that_is_no_module(code, reason):
    assert reason in _refusal(code)


def test_a_name_that_two_files_define():
    @kd.func(link=PTX, signature="bool(int64)")
    def is_even(n):
        return n % 2 == 0

    @kd.func(link=PTX + b"\n", signature=_WEIGH)
    def weigh(a, b):
        return a * b + 0.25

    @kd.kernel
    def both(x):
        x[0] = weigh(x[0], is_even(x.size))

    with pytest.raises(
        DeviceCodeError, match=r"quarter is defined in the code of .* and in the code"
    ):
        both.ptx("float32[::1]", arch="sm_90")


def test_a_function_that_no_file_defines():
    text = """
    extern "C" __device__ float elsewhere(float x);
    extern "C" __device__ float weigh(float a, float b) { return elsewhere(a) * b; }
    """
    said = _refusal(_compiled(CodeForm.PTX, text=text))
    assert "calls elsewhere, which is not defined" in said


def test_lto_ir_with_kernels():
    assert "compile LTO-IR from a file without kernels" in _refusal(_compiled(CodeForm.LTO_IR))


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 0.99])
def test_truncated_machine_code(part):
    cubin = _cubin()
    assert "is cut off after" in _refusal(cubin[: int(len(cubin) * part)])
    lto = _compiled(CodeForm.LTO_IR)
    assert "nvJitLink refuses" in _refusal(lto[: int(len(lto) * part)])


def test_machine_code_for_another_architecture():
    said = _refusal(_compiled(CodeForm.CUBIN, "sm_80"))
    assert "nvJitLink refuses" in said


def test_a_driver_that_is_older_than_the_ptx(cuda_file):
    artifact = weighing(cuda_file).artifact(_ARRAYS, target="cuda", arch="sm_90")
    artifact.require("sm_90", (13, 0))
    with pytest.raises(DeviceCodeError, match=r"linked with .*weigh.cu, is PTX 9.0.* CUDA 12.8"):
        artifact.require("sm_90", (12, 8))


def test_without_nvjitlink_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(linker, "find_linker", lambda: None)
    kernel = weighing(_cubin())
    assert ".extern .func" in kernel.ptx(_ARRAYS, arch="sm_90")
    with pytest.raises(ToolMissingError, match=r'pip install "kerneldsl\[link13\]"'):
        kernel.artifact(_ARRAYS, target="cuda", arch="sm_90").image


def test_a_float_where_an_integer_is_declared():
    @kd.func(link=PTX, signature="bool(int64)")
    def is_even(n):
        return n % 2 == 0

    @kd.kernel
    def calls(x, y):
        y[0] = is_even(x[0])

    with pytest.raises(KernelTypingError, match="is_even: n is declared as int64, and is float32"):
        calls.ptx("float32[::1], int8[::1]", arch="sm_90")


@pytest.mark.parametrize("given", ["float32[::1]", "float64[:]", "float64[:, ::1]", "int64"])
def test_an_array_of_another_type(given):
    @kd.func(link=PTX, signature=_ADD_TO)
    def add_to(p, i, v):
        p[i] += v

    @kd.kernel
    def calls(x):
        add_to(x, 0, 1.0)

    declared = re.escape("add_to: p is declared as float64[::1], and is ")
    with pytest.raises(KernelTypingError, match=declared):
        calls.ptx(given, arch="sm_90")
    if given != "int64":
        ndim = given.count(",") + 1
        array = np.zeros((4,) * ndim, given.partition("[")[0])[::2]
        with kd.use("cpu"), pytest.raises(KernelTypingError, match=declared):
            calls[1, 1](array)
