"""A C program launches kernels from a library that was written for it, without Python."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.contract.promises import Promises
from kerneldsl.errors import ArgumentValueError, CompileError, ToolMissingError
from targets.c_library.declarations import fields_of
from targets.c_library.writer import CLibrary, link_shared
from tests.c_library import kernels
from tests.c_library.library import (
    LAUNCHES,
    PROGRAMS,
    STRICT,
    library_of_kernels,
    link_program,
    run_program,
)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("c")
    library_of_kernels(gpu=True).write(folder)
    return folder


def _compile(folder: Path, source: str, output: Path, *options: str) -> None:
    command = ["cc", *options, str(PROGRAMS / source), "-I", str(folder), "-o", str(output)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def test_a_c_program_launches_on_the_cpu(library: Path, tmp_path: Path) -> None:
    assert run_program(link_program(library, "launches", tmp_path / "launches")) == "0 failures\n"


def test_object_files_and_sources_link_without_the_shared_object(library: Path, tmp_path: Path):
    files = [str(each) for each in library.iterdir() if each.suffix in (".c", ".o")]
    program = tmp_path / "static"
    command = ["cc", *STRICT, str(PROGRAMS / "launches.c"), *files, f"-I{library}"]
    subprocess.run([*command, "-o", str(program), "-pthread", "-lm", "-ldl"], check=True)
    assert run_program(program) == "0 failures\n"


def test_the_headers_are_cplusplus(library: Path, tmp_path: Path) -> None:
    source = tmp_path / "main.cpp"
    source.write_text(
        '#include "kernels.h"\nint main() { return kd_status_text(KD_SUCCESS) == 0; }\n'
    )
    command = ["c++", "-Wall", "-Wextra", "-Werror", f"-I{library}", "-fsyntax-only", str(source)]
    subprocess.run(command, check=True)


def test_its_sources_compile_without_warnings(library: Path, tmp_path: Path) -> None:
    for source in sorted(library.glob("*.c")):
        command = ["cc", *STRICT, "-O2", "-fPIC", "-c", str(source), "-o", str(tmp_path / "x.o")]
        subprocess.run(command, check=True)


@pytest.mark.parametrize(
    ("capability", "loaded"), [("80", "cubin"), ("90", "cubin"), ("86", "cubin"), ("121", "ptx")]
)
def test_a_gpu_gets_a_cubin_of_its_major_version_else_ptx(
    library: Path, tmp_path: Path, capability: str, loaded: str
) -> None:
    driver = tmp_path / "libcuda.so.1"
    _compile(library, "driver.c", driver, *STRICT, "-shared", "-fPIC")
    program = link_program(library, "gpu", tmp_path / "gpu")
    shown = run_program(program, LD_LIBRARY_PATH=str(tmp_path), TEST_CAPABILITY=capability)
    # Arguments: a, the length of x, the length of y, the extent. It is loaded once.
    assert shown.splitlines() == [
        *(f"load {loaded}", "function axpy"),
        *("launch 4,1,1 256,1,1 0 0: 2 1000 1000 1000", "success ()"),
        *("launch 4,1,1 256,1,1 0 1: 2 1000 1000 1000", "success ()"),
    ]


def test_failures_of_the_driver_are_named(library: Path, tmp_path: Path) -> None:
    program = link_program(library, "gpu", tmp_path / "gpu")
    (tmp_path / "none").mkdir()
    driver = tmp_path / "libcuda.so.1"
    _compile(library, "driver.c", driver, *STRICT, "-shared", "-fPIC")
    given = {"LD_LIBRARY_PATH": str(tmp_path), "TEST_CAPABILITY": "90", "TEST_FAILS": "1"}
    assert "the CUDA driver returned an error (CUDA_ERROR_OF_TEST)" in run_program(program, **given)
    given["TEST_CAPABILITY"] = "75"
    assert "there is no code for this processor or GPU ()" in run_program(program, **given)


@pytest.mark.full
def test_two_builds_are_equal(library: Path, tmp_path: Path) -> None:
    names = library_of_kernels(gpu=True).write(tmp_path)
    assert sorted(names) == sorted(each.name for each in library.iterdir())
    for name in names:
        data = (tmp_path / name).read_bytes()
        assert data == (library / name).read_bytes(), name
        assert str(tmp_path).encode() not in data


@kd.kernel
def oddly_named(x, register, double, double_):
    pass


def test_names_of_members_and_offsets() -> None:
    signature = "(int8, {re: float64[:], im: complex64}), int16, float16, bool"
    layout = oddly_named.artifact(signature, target="cpu").specialization.layout
    assert [(each.name, each.type, each.offset) for each in fields_of(layout)] == [
        ("x_0", "int8_t", 0),
        ("x_1_re", "kd_float64_1s", 8),
        ("x_1_im", "kd_complex64", 32),
        ("register_", "int16_t", 40),
        ("double_", "uint16_t", 42),
        ("double__", "uint8_t", 44),
    ]


def test_code_that_depends_on_checks_is_refused() -> None:
    artifact = kernels.axpy.artifact(LAUNCHES[0][1], forall=1, target="cuda", arch="sm_80")
    checked = replace(artifact.specialization, promises=Promises(is_narrow=True))
    compiled = kd.get_target("cuda").compiler.compile(checked)
    with pytest.raises(ArgumentValueError, match="cannot be in a C library"):
        CLibrary("x").add(compiled)


def test_code_of_this_process_alone_is_left_out() -> None:
    artifact = kernels.axpy.artifact(LAUNCHES[0][1], forall=1, target="cpu")
    assert not CLibrary("x").add(artifact)
    foreign = kernels.axpy.artifact(LAUNCHES[0][1], forall=1, target="cpu", arch="aarch64")
    assert not CLibrary("x").add(foreign)


def test_errors_of_the_compiler_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.c").write_text("void missing(void);\nvoid f(void) { missing(); }\n")
    with pytest.raises(CompileError, match="missing"):
        link_shared(tmp_path, "libx.so", ["x.c"])
    monkeypatch.setenv("CC", "no-such-compiler -m64")
    with pytest.raises(ToolMissingError, match="no-such-compiler was not found"):
        CLibrary("x").write(tmp_path)
