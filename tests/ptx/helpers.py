"""Compiles functions and whole suites for the PTX tests, each thing once a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

from kerneldsl.analysis.analyze import analyze
from kerneldsl.contract import (
    NO_PROMISES,
    ONE_EACH,
    CompileOptions,
    Dim3,
    ElementMapping,
    Promises,
    Specialization,
)
from kerneldsl.contract.abi import EXPLICIT, LaunchMode
from kerneldsl.language.kinds import Kind
from kerneldsl.language.signatures import parse_signature
from targets.cuda.architectures import ARCHITECTURES, choose_ptx_version, parse_arch
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.compiler import compile_kernel, lower_kernel, write_kernel
from targets.cuda.compile.lowered import LoweredKernel
from targets.cuda.compile.ptxas import assemble
from targets.cuda.compile.requirements import SINCE
from tests.support.extent import full_beyond
from tests.support.python_kernels import unit_of

__all__ = [
    "ARCHS",
    "ARCH_PARAMETERS",
    "ASSEMBLED_ARCHS",
    "QUICK_ARCHS",
    "assemble_together",
    "body_of",
    "compile_ptx",
    "lower",
    "newer_words",
    "specialize",
    "write",
]

#: Every architecture whose PTX is written in the tests.
ARCHS = ("sm_60", "sm_70", "sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_120")
#: Those that the ptxas of CUDA 13 still assembles for.
ASSEMBLED_ARCHS = ARCHS[2:]
#: Those of a quick run: the oldest and the newest that are assembled, and one between.
QUICK_ARCHS = ("sm_75", "sm_90", "sm_120")
#: All of them, for ``parametrize``.
ARCH_PARAMETERS = full_beyond(ARCHS, QUICK_ARCHS)


def newer_words(arch: str) -> frozenset[str]:
    """Words of the language that the architecture is too old for."""
    number = ARCHITECTURES[arch].number
    return frozenset(name for name, (first, *_) in SINCE.items() if number < first)


def specialize(
    function: Callable[..., Any],
    signature: str | tuple[Kind, ...],
    mode: LaunchMode = EXPLICIT,
    *,
    mapping: ElementMapping = ONE_EACH,
    promises: Promises = NO_PROMISES,
    block: Dim3 | None = None,
    **options: Any,
) -> Specialization:
    """Take a function apart and say what it is to be compiled for."""
    kinds = parse_signature(signature) if isinstance(signature, str) else signature
    unit = unit_of(function)
    traits = analyze(unit)
    return Specialization(
        unit,
        traits,
        kinds,
        CompileOptions(**options),
        mode,
        block if traits.uses_tiles else None,
        mapping=mapping,
        promises=promises,
    )


@cache
def lower(
    function: Callable[..., Any],
    signature: str | tuple[Kind, ...],
    mode: LaunchMode = EXPLICIT,
    *,
    block: Dim3 | None = None,
    **options: Any,
) -> LoweredKernel:
    """The part of compiling that serves every architecture."""
    return lower_kernel(specialize(function, signature, mode, block=block, **options))


def write(lowered: LoweredKernel, arch: str) -> CudaArtifact:
    """The part that does not."""
    architecture = parse_arch(arch)
    return write_kernel(lowered, architecture, choose_ptx_version(architecture))


@cache
def compile_ptx(
    function: Callable[..., Any],
    signature: str | tuple[Kind, ...],
    arch: str = "sm_75",
    *,
    mode: LaunchMode = EXPLICIT,
    ptx_version: str | None = None,
    **options: Any,
) -> CudaArtifact:
    """Compile a function, as the target does."""
    specialization = specialize(function, signature, mode, **options)
    return compile_kernel(specialization, arch=arch, ptx_version=ptx_version)


def body_of(artifact: CudaArtifact) -> str:
    """The entry's PTX, from its brace on."""
    return artifact.ptx[artifact.ptx.index("{\n") :]


_HEADER = re.compile(r"\A.*?^\.address_size 64$", re.DOTALL | re.MULTILINE)
_SYMBOL = re.compile(
    r"^(?:\.(?:global|shared|const|local)[^;={]*?\b(\w+)\[\d+\]|\.func [^\n]*?\b(\w+)\($)",
    re.MULTILINE,
)
_SHARED_DECLARATIONS = re.compile(
    r"^(?:\.extern \.func .*?^;|\.extern \.shared [^\n]*;)$", re.DOTALL | re.MULTILINE
)


def assemble_together(artifacts: Iterable[CudaArtifact], arch: str) -> int:
    """Put entries into one file, which ptxas must accept; returns how many there were."""
    header, count, alone = "", 0, 0
    parts: list[str] = []
    declarations: dict[str, None] = {}
    for count, artifact in enumerate(artifacts, 1):
        if artifact.specialization.unit.linked_functions():  # whose names stay as they are
            assert len(assemble(artifact.ptx, arch, optimize=False).resources) == 1
            alone += 1
            continue
        found = _HEADER.match(artifact.ptx)
        assert found, artifact.ptx[:200]
        header = found[0]
        text = artifact.ptx[found.end() :]
        declarations |= dict.fromkeys(_SHARED_DECLARATIONS.findall(text))
        text = _SHARED_DECLARATIONS.sub("", text)
        symbols = {a or b for a, b in _SYMBOL.findall(text)}
        for symbol in (artifact.entry_name, *sorted(symbols)):
            text = re.sub(rf"\b{re.escape(symbol)}(?=\b|_param_)", f"{symbol}_k{count}", text)
        parts.append(text)
    if not parts:
        return count
    ptx = "\n".join([header, *declarations, *parts])
    entries = assemble(ptx, arch, optimize=False).resources
    assert len(entries) == count - alone
    return count
