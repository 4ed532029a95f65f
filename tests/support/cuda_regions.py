"""Compile a kernel by the region IR alone."""

from __future__ import annotations

from typing import Any

from kerneldsl.contract import Specialization
from kerneldsl.ir.explained_errors import explained_errors
from kerneldsl.lowering.numba_internals.compiling import (
    collector_paused,
    global_compiler_lock,
    target_override,
)
from targets.cuda.architectures import choose_ptx_version, parse_arch
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.compiler import write_kernel
from targets.cuda.compile.numba_device import TARGET_NAME
from targets.cuda.compile.region_code import lower_regions
from targets.cuda.compile.requirements import preferred_ptx

__all__ = ["compile_regions"]


def compile_regions(
    specialization: Specialization, *, arch: str, ptx_version: Any = None
) -> CudaArtifact:
    """Compile a kernel by the region IR."""
    architecture = parse_arch(arch)
    version = choose_ptx_version(
        architecture,
        ptx_version or specialization.ptx_version or preferred_ptx(specialization, architecture),
    )
    with (
        collector_paused(),
        global_compiler_lock,
        target_override(TARGET_NAME),
        explained_errors(specialization.unit, specialization.kinds, where="on a GPU"),
    ):
        return write_kernel(lower_regions(specialization, architecture), architecture, version)
