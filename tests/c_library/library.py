"""The C library of these tests' kernels, and programs that are linked with it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from targets.c_library.writer import CLibrary
from tests.c_library import kernels

__all__ = ["LAUNCHES", "PROGRAMS", "STRICT", "library_of_kernels", "link_program", "run_program"]

PROGRAMS = Path(__file__).parent / "programs"
LEVELS = ("x86-64-v2", "x86-64-v3")
STRICT = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1")
VECTOR = "float32[::1]"
#: Kernel, signature, rank of the extent, block.
LAUNCHES = (
    (kernels.axpy, f"float32, {VECTOR}, {VECTOR}", 1, None),
    (kernels.axpy, "float64, float64[::1], float64[:]", 1, None),
    (kernels.scale, "float32[:, :], (float64, int32), float32[:, ::1]", 2, None),
    (kernels.sum_blocks, f"{VECTOR}, {VECTOR}", None, 64),
    (kernels.reverse_blocks, "int32[::1], int64", None, 32),
    (kernels.share_of_all, "float64[::1], float64[::1]", None, 64),
    (kernels.rotate, "complex128[::1], complex128, bool, complex128[::1]", None, None),
)


def library_of_kernels(*, gpu: bool = False) -> CLibrary:
    """Return the library, with code for GPUs, too, if that is wanted."""
    made = CLibrary("kernels")
    for kernel, signature, forall, block in LAUNCHES:
        for level in LEVELS:
            artifact = kernel.artifact(
                signature, forall=forall, block=block, target="cpu", arch=level
            )
            assert made.add(artifact)
    for arch in ("sm_80", "sm_90"):
        for kernel, signature, forall, _ in LAUNCHES if gpu else ():
            artifact = kernel.artifact(signature, forall=forall, target="cuda", arch=arch)
            assert made.add(artifact)
            assert made.add(artifact, as_cubin=True)
    return made


def link_program(library: Path, name: str, output: Path) -> Path:
    """Compile a program of the folder with the shared object of a library."""
    linked = (f"-L{library}", "-lkernels", f"-Wl,-rpath,{library}")
    command = ["cc", *STRICT, str(PROGRAMS / f"{name}.c"), f"-I{library}", "-pthread"]
    done = subprocess.run(
        [*command, "-o", str(output), *linked], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return output


def run_program(program: Path, **environment: str) -> str:
    """Run a program; return what it prints."""
    done = subprocess.run(
        [str(program)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
