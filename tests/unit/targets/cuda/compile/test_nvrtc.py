"""CUDA C++ by NVRTC: what is made, and how errors are told."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.errors import CompileError, ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm, form_of_binary
from targets.cuda.compile import nvrtc
from targets.cuda.compile.nvrtc import (
    Compiled,
    CudaText,
    compile_text,
    headers_digest,
    nvrtc_version,
)

SCALE = """
template<class T> __global__ void scale(T factor, T *x, long long n) {
    long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
"""
PLAIN = 'extern "C" __global__ void one(float *x) { x[threadIdx.x] = 1; }\n'


def _compile(text: str, form: CodeForm = CodeForm.PTX, **options: object) -> Compiled:
    return compile_text(CudaText(text, "<test>"), "sm_90", CudaOptions(**options), form=form)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", [CodeForm.CUBIN, CodeForm.PTX, CodeForm.LTO_IR])
def test_each_form_is_made(form: CodeForm) -> None:
    compiled = _compile(PLAIN, form)
    if form is CodeForm.PTX:
        assert compiled.code.startswith(b"//\n// Generated")
    else:
        assert form_of_binary(compiled.code) is form
    assert compiled.form is form
    assert compiled.arch == "sm_90"


def test_name_expressions_instantiate_templates() -> None:
    names = ["scale<float>", "scale<double>"]
    compiled = compile_text(
        CudaText(SCALE, "<scale>"), "sm_90", form=CodeForm.PTX, expressions=names
    )
    entries = re.findall(r"\.entry (\w+)\(", compiled.code.decode())
    assert sorted(compiled.names) == sorted(names)
    assert sorted(compiled.names.values()) == sorted(entries)


def test_a_kernel_with_cub_compiles() -> None:
    text = """
    #include <cub/block/block_reduce.cuh>
    template<class T, int N> __global__ void total(const T *x, T *out) {
        using Reduce = cub::BlockReduce<T, N>;
        __shared__ typename Reduce::TempStorage room;
        T sum = Reduce(room).Sum(x[threadIdx.x]);
        if (threadIdx.x == 0) *out = sum;
    }"""
    names = ["total<float, 128>"]
    compiled = compile_text(
        CudaText(text, "<total>"), "sm_90", form=CodeForm.PTX, expressions=names
    )
    assert "shfl.sync" in compiled.code.decode()


def test_options_reach_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "four.h").write_text("#define FOUR 4\n")
    text = """#include "four.h"
    extern "C" __global__ void f(float *x) {
        static_assert(FOUR == 4 && WIDTH == 8 && __cplusplus == 202002L);
        x[0] = sinf(x[1]);
    }"""
    found = _compile(
        text,
        include=[tmp_path],
        defines={"WIDTH": 8},
        std="c++20",
        fastmath=True,
        lineinfo=True,
    ).code.decode()
    assert "sin.approx" in found
    assert ".loc" in found
    for form in (CodeForm.PTX, CodeForm.CUBIN):
        debugged = _compile(PLAIN, form, debug=True, lineinfo=True, opt_level=2)
        assert b".debug_info" in debugged.code
        assert debugged.log == ""


def test_the_assembler_keeps_levels_and_registers() -> None:
    text = """extern "C" __global__ void f(double *x) {
        double s[64]; for (int i = 0; i < 64; i++) s[i] = x[i];
        for (int k = 0; k < 9; k++)
            for (int i = 0; i < 64; i++) s[i] = s[i] * s[(i + 7) % 64] + x[i + k];
        for (int i = 0; i < 64; i++) x[i] = s[i];
    }"""
    usual = _compile(text, CodeForm.CUBIN).code
    assert _compile(text, CodeForm.CUBIN, opt_level=0).code != usual
    assert _compile(text, CodeForm.CUBIN, max_registers=32).code != usual


def test_warnings_are_in_the_log() -> None:
    compiled = _compile(PLAIN.replace("{", "{ int unused;"))
    assert "<test>(1): warning" in compiled.log
    assert "unused" in compiled.log


def test_an_error_names_line_and_column_in_ten_lines_at_most() -> None:
    text = """
extern "C" __global__ void f(float *x) {
\tx[0] = first;
    x[1] = g("é", second); unknown_type t;
    float *p = 3.5;
    a; b; c; d; e;
}"""
    with pytest.raises(CompileError) as caught:
        _compile(text)
    error, told = caught.value, str(caught.value)
    assert told.splitlines()[:4] == [
        'test does not compile for sm_90: identifier "first" is undefined.',
        "  at <test>:3",
        "      x[0] = first;",
        "             ^",
    ]
    assert error.where is not None
    assert (error.where.lineno, error.where.col_offset) == (3, 8)
    assert '<test>:4:19: identifier "second" is undefined' in told
    assert len(told.splitlines()) <= 10
    assert "more errors" in told
    assert 'identifier "e" is undefined' not in told
    assert 'identifier "e" is undefined' in error.details


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ("own.h", "Name its folder: options=kd.CudaOptions(include=[…])"),
        ("cub/cub.cuh", 'pip install "kerneldsl[cccl13]"'),
        ("cuda_fp16.h", 'pip install "kerneldsl[nvrtc13]"'),
    ],
)
def test_a_missing_header_has_a_remedy(
    header: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvrtc, "toolkit_headers", lambda release: ())
    with pytest.raises(CompileError) as caught:
        _compile(f"#include <{header}>\n")
    assert told in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no stack limit")
def test_a_fatal_error_leaves_the_stack_limit_of_the_process() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_STACK)
    if before[0] == before[1]:
        resource.setrlimit(resource.RLIMIT_STACK, (8 * 2**20, before[1]))
    try:
        limits = resource.getrlimit(resource.RLIMIT_STACK)
        with pytest.raises(CompileError):
            _compile("#include <no_such_file.h>\n")
        assert resource.getrlimit(resource.RLIMIT_STACK) == limits
        with ThreadPoolExecutor(2) as pool:
            texts = ["#include <no_such_file.h>\n" * n + PLAIN for n in (0, 1, 0, 1)]
            compiled = [pool.submit(_compile, text) for text in texts]
        assert [each.exception() is None for each in compiled] == [True, False, True, False]
        assert resource.getrlimit(resource.RLIMIT_STACK) == limits
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, before)


def test_an_error_is_at_the_line_of_the_python_file_that_has_the_text(tmp_path: Path) -> None:
    text = """extern "C" __global__ void f(float *x) {
    x[0] = nothing;
}"""
    file = tmp_path / "program.py"
    file.write_text(f"import kerneldsl as kd\n\nf = kd.cuda_source('''{text}''', 'f')\n")
    for written_in, place in ((str(file), f"{file}:4"), (str(tmp_path), "<f>:2"), ("", "<f>:2")):
        with pytest.raises(CompileError) as caught:
            compile_text(CudaText(text, "<f>", written_in), "sm_90")
        assert f"  at {place}\n      x[0] = nothing;\n             ^" in str(caught.value)


def test_an_error_in_a_header_is_in_the_header(tmp_path: Path) -> None:
    (tmp_path / "bad.h").write_text("\n__device__ int broken() { return nothing; }\n")
    with pytest.raises(CompileError) as caught:
        _compile('#include "bad.h"\n', include=[tmp_path])
    assert f"at {tmp_path}/bad.h:2\n" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('#include "no_such_file.h"\n', 'cannot open source file "no_such_file.h"'),
        ('#error "not here"\n', '#error directive: "not here"'),
        (
            'extern "C" __global__ void f(double *x, int n) '
            "{ __shared__ double s[99999]; s[n] = 1; x[0] = s[n + 1]; }",
            "uses too much shared data",
        ),
    ],
)
def test_other_errors(text: str, told: str) -> None:
    with pytest.raises(CompileError) as caught:
        _compile(text, CodeForm.CUBIN)
    assert told in str(caught.value)


@pytest.mark.parametrize("expression", ["nothing<float>", "scale<", "scale<no_type>"])
def test_a_name_that_the_source_has_not(expression: str) -> None:
    with pytest.raises(CompileError) as caught:
        compile_text(CudaText(SCALE, "<scale>"), "sm_90", expressions=[expression])
    told = str(caught.value)
    assert told.startswith(f"CUDA C++ of {expression} does not compile")
    assert "It must be a kernel of the source" in told
    assert "__nv_name_map" not in told


def test_a_text_has_no_headers_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "beside.h").write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CompileError, match=r"beside\.h"):
        _compile('#include "beside.h"\n')
    source = CudaText('#include "beside.h"\n' + PLAIN, str(tmp_path / "it.cu"))
    assert compile_text(source, "sm_90").code


def test_the_digest_is_of_headers_and_folders(tmp_path: Path) -> None:
    source = CudaText('#include "own.h"\n' + PLAIN, "<test>")
    options = CudaOptions(include=[tmp_path])
    missing = headers_digest(source, options)
    (tmp_path / "own.h").write_text("#define A 1")
    first = headers_digest(source, options)
    (tmp_path / "own.h").write_text("#define A 2")
    assert len({missing, first, headers_digest(source, options)}) == 3


def test_an_architecture_that_it_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "supported_architectures", lambda: (75, 80))
    with pytest.raises(ToolMissingError) as caught:
        _compile(PLAIN)
    major, minor = nvrtc_version()
    assert str(caught.value).startswith(f"NVRTC {major}.{minor} does not compile for sm_90")
    assert "It knows sm_75, sm_80" in str(caught.value)


def test_a_missing_library_says_what_to_install() -> None:
    code = """
import sys
sys.modules["cuda.bindings.nvrtc"] = None
from targets.cuda.compile.nvrtc import CudaText, compile_text
try:
    compile_text(CudaText("", "<test>"), "sm_90")
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ToolMissingError CUDA C++ needs NVRTC: cuda.bindings is not")
    assert 'pip install "kerneldsl[nvrtc13]"' in done.stdout


def test_the_module_imports_no_bindings() -> None:
    code = "import sys, targets.cuda.compile.nvrtc; print('cuda.bindings' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
