"""Compiled kernels as bytes and back: PTX, and what it takes to load and launch it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from operator import index
from pathlib import Path
from typing import Any

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import PassRemark, Specialization, UnusableCodeError
from kerneldsl.contract.device_code import DeviceCode
from kerneldsl.errors import CompileError, DeviceCodeError, SourceLocation, ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.frontend.trees import statements_of
from kerneldsl.utilities.untrusted import parse_json
from targets.cuda.architectures import (
    Architecture,
    choose_ptx_version,
    older_architectures,
    parse_arch,
)
from targets.cuda.compile.artifact import CudaArtifact
from targets.cuda.compile.code_artifact import CodeArtifact
from targets.cuda.compile.code_image import read_image, text_of
from targets.cuda.compile.cubin_file import read_cubin
from targets.cuda.compile.lowered import dump_additions, restore_additions
from targets.cuda.compile.nvrtc import headers_digest, nvrtc_identity
from targets.cuda.compile.ptx_lines import read_header

__all__ = [
    "code_identity",
    "dump",
    "dump_code",
    "identify_compiler",
    "restore",
    "restore_code",
    "ship",
]


#: PTX ISA, "Identifiers".
_IDENTIFIER = re.compile(r"[A-Za-z][\w$]*|[_$%][\w$]+", re.ASCII)


def code_identity(specialization: Specialization, arch: str) -> dict[str, str] | None:
    """Return architecture and PTX version, as they will be where neither was named.

    For linked functions of CUDA C++ it has their compiler and included files; ``None`` if those are
    unknown. libdevice is not part of it, since only compiling shows whether a kernel needs it. The
    entry then names the libdevice.
    """
    architecture = parse_arch(arch)
    major, minor = choose_ptx_version(architecture, specialization.ptx_version)
    found = {"architecture": architecture.name, "PTX": f"{major}.{minor}"}
    if not specialization.unit.linked_functions():
        return found
    from targets.cuda.compile.linked_modules import identify_compiler

    compiler = identify_compiler(specialization.unit)
    return None if compiler is None else found | compiler


def dump(artifact: CudaArtifact) -> dict[str, bytes] | None:
    """Write a compiled kernel; ``None`` in debug mode, where lines and exceptions belong to it."""
    if artifact.specialization.options.debug:
        return None
    sections = _sections(
        artifact,
        libdevice=_digest_of_libdevice() if artifact.uses_libdevice else None,
        timings=dict(artifact.timings),
        # This field is for readers of the entry; a process that uses the entry computes it again.
        static_shared_bytes=artifact.static_shared_bytes,
    )
    if artifact.binaries:
        with suppress(ToolMissingError, CompileError):  # which loading the code reports
            sections["cubin"] = artifact.code("cubin")
    return sections


def ship(artifact: CudaArtifact) -> dict[str, bytes]:
    """Write a compiled kernel with its machine code; the PTX contains what it uses of libdevice.

    Raises what :func:`~targets.cuda.compile.cubin_file.make_cubin` raises, and `UncacheableError`
    for a kernel linked with CUDA C++ that includes files: its key does not have their contents.
    """
    from targets.cuda.compile.headers import includes_anything  # a launch does not need it

    for code in artifact.specialization.unit.linked_functions().values():
        if code.form is CodeForm.CUDA and includes_anything(code.code.decode(errors="replace")):
            raise UncacheableError(
                f"{code.name}, which it calls, includes files, and a change of them would not be "
                "seen; link the PTX of it"
            )
    return {**_sections(artifact, arch=artifact.arch), "cubin": artifact.code("cubin")}


def _sections(artifact: CudaArtifact, **others: Any) -> dict[str, bytes]:
    metadata = {
        "entry_name": artifact.entry_name,
        "parameters": [[p.name, p.dtype, p.offset] for p in artifact.layout.parameters],
        "passes": dump_remarks(artifact.passes, artifact.specialization),
        **others,
        **dump_additions(artifact.additions),
    }
    return {"metadata": json.dumps(metadata).encode(), "ptx": artifact.ptx.encode()}


def restore(
    specialization: Specialization, sections: Mapping[str, bytes], arch: str
) -> CudaArtifact:
    """Make a compiled kernel of what :func:`dump` or :func:`ship` wrote.

    Shipped code may be for an older architecture: the driver assembles its PTX for a newer one.

    Raises `UnusableCodeError` if the code was made with another libdevice, or cannot be read.
    """
    try:
        metadata = parse_json(sections["metadata"])
        entry_name, libdevice = metadata["entry_name"], metadata.get("libdevice")
        times = metadata.get("timings", {})
        timings = {str(step): float(seconds) for step, seconds in times.items()}
        parameters = [tuple(row) for row in metadata["parameters"]]
        passes = restore_remarks(metadata["passes"], specialization)
        ptx = sections["ptx"].decode()
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise UnusableCodeError(f"the metadata cannot be read: {error!r}") from error
    if not isinstance(entry_name, str) or not _IDENTIFIER.fullmatch(entry_name):
        raise UnusableCodeError(f"{entry_name!r} is not the name of an entry")
    if f".entry {entry_name}(" not in ptx:
        raise UnusableCodeError(f"the PTX has no entry {entry_name!r}")
    layout = specialization.layout.parameters
    if parameters != [(p.name, p.dtype, p.offset) for p in layout]:
        raise UnusableCodeError("the parameters are laid out otherwise")
    if libdevice is not None and _digest_of_libdevice() not in (libdevice, None):
        raise UnusableCodeError("it was made with another libdevice")
    # Linked code may be PTX of a newer version.
    is_linked = bool(specialization.unit.linked_functions())
    architecture, header = parse_arch(arch), read_header(ptx)
    cubin, is_shipped = sections.get("cubin"), False
    if header is not None and "arch" in metadata and header[1] in older_architectures(arch):
        version, architecture, is_shipped = header[0], parse_arch(header[1]), True
        cubin = _read_cubin(cubin, entry_name, architecture, parse_arch(arch))
    else:
        version = choose_ptx_version(architecture, specialization.ptx_version)
        newest = max(version, header[0]) if header and is_linked else version
        if header != (newest, architecture.name):
            raise UnusableCodeError(f"the PTX is not for {architecture.name} in version {version}")

    def compile_anew() -> str:
        from targets.cuda.compile.compiler import compile_kernel

        made = compile_kernel(specialization, arch=architecture.name, ptx_version=version)
        return made.text("llvm")

    made = CudaArtifact(
        specialization,
        entry_name,
        ptx=ptx,
        llvm=compile_anew,
        arch=architecture,
        ptx_version=header[0],
        timings=timings,
        uses_libdevice=libdevice is not None,
        passes=passes,
        cubin=cubin,
        additions=restore_additions(metadata, len(specialization.layout.arrays)),
    )
    if made.binaries and is_shipped and cubin is None:
        raise UnusableCodeError("it has compiled code for another architecture")
    return made


def _read_cubin(
    cubin: bytes | None, entry_name: str, arch: Architecture, device: Architecture
) -> bytes | None:
    """Return machine code that a device runs, after it was checked; ``None`` if it runs none.

    Machine code runs on devices of the same major version (CUDA Programming Guide, "Binary
    Compatibility").
    """
    if cubin is None or arch.compute_capability[0] != device.compute_capability[0]:
        return None
    try:
        found = read_cubin(cubin, "the cubin")
    except DeviceCodeError as error:
        raise UnusableCodeError(str(error)) from error
    if found.number != arch.number or entry_name not in found.entries:
        raise UnusableCodeError(f"the cubin is not of {entry_name!r} for {arch.name}")
    return cubin


def _digest_of_libdevice() -> str | None:
    """Return the digest of the libdevice that would be used, or ``None`` without one."""
    from targets.cuda.compile.libdevice import find_libdevice

    path = find_libdevice()
    return None if path is None else _digest(path)


@cache
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


# -- remarks of passes -----------------------------------------------------------------------------
# Remarks of passes in cached code.
#
# Code that is found in the cache belongs to the same syntax tree, but a comment may have moved its
# lines. So places are statements: the number of a function, and the number of a statement in it.


def dump_remarks(remarks: Iterable[PassRemark], specialization: Specialization) -> list[list[Any]]:
    """Return remarks as JSON has them; a place that is no statement of the kernel is left out."""
    numbers: dict[SourceLocation, list[int]] = {}
    if any(each.where for each in remarks):
        for function, unit in enumerate(specialization.unit.reachable()):
            for statement, node in enumerate(statements_of(unit.tree)):
                numbers.setdefault(unit.locate(node), [function, statement])
    return [
        [
            each.name,
            each.count,
            each.text,
            [numbers[place] for place in each.where if place in numbers],
            each.is_missed,
        ]
        for each in remarks
    ]


def restore_remarks(
    rows: Any, specialization: Specialization
) -> Callable[[], tuple[PassRemark, ...]]:
    """Return what makes the remarks that :func:`dump_remarks` wrote: a launch does not read them.

    A place that is no statement of the kernel is left out. Raises `ValueError`, `TypeError` or
    `LookupError` for anything else.
    """
    read = [
        (
            str(name),
            int(count),
            str(text),
            [(index(n), index(m)) for n, m in where],
            bool(is_missed),
        )
        for name, count, text, where, is_missed in rows
    ]

    def restore() -> tuple[PassRemark, ...]:
        places = {
            (function, statement): unit.locate(node)
            for function, unit in enumerate(specialization.unit.reachable())
            for statement, node in enumerate(statements_of(unit.tree))
        }
        return tuple(
            PassRemark(name, count, text, tuple(places[n] for n in where if n in places), is_missed)
            for name, count, text, where, is_missed in read
        )

    return restore


# Compiled CUDA C++ as bytes and back, for the cache.
#
# PTX and cubins of a program need no compiling, so they are not cached.


def identify_compiler(code: DeviceCode, arch: str) -> dict[str, str] | None:
    """Return architecture, NVRTC, and a digest of all headers that a source may include.

    It is ``None`` for code that is not cached: PTX, cubins, and a source that includes a macro with
    an unknown value. It is ``None``, too, if the file of NVRTC was replaced.
    """
    module = code.module
    if module.form is not CodeForm.CUDA:
        return None
    try:
        headers = headers_digest(text_of(module), module.options)
        compiler = nvrtc_identity()
    except LookupError:
        return None
    return {"architecture": parse_arch(arch).name, "NVRTC": compiler, "headers": headers}


def dump_code(artifact: CodeArtifact) -> dict[str, bytes]:
    """Write what NVRTC made."""
    image = artifact.image_parts
    metadata = {
        "form": image.form.name,
        "names": dict(image.names),
        "floats": {
            name: [each.is_float for each in entry.parameters]
            for name, entry in image.entries.items()
        },
        "log": image.log,
        "timings": dict(artifact.timings),
    }
    return {"metadata": json.dumps(metadata).encode(), "code": image.data}


def restore_code(
    specialization: Specialization, sections: Mapping[str, bytes], arch: str
) -> CodeArtifact:
    """Make a kernel of what :func:`dump_code` wrote.

    - raises `ArgumentTypeError` if the signature passes other parameters than the kernel declares.
    - raises `UnusableCodeError` if the code cannot be read.
    """
    assert specialization.code is not None
    module = specialization.code.module
    try:
        metadata = parse_json(sections["metadata"])
        form = CodeForm[metadata["form"]]
        names = {str(name): str(lowered) for name, lowered in metadata["names"].items()}
        floats = {str(name): list(known) for name, known in metadata["floats"].items()}
        timings = {str(step): float(seconds) for step, seconds in metadata["timings"].items()}
        log, data = str(metadata["log"]), sections["code"]
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise UnusableCodeError(f"the metadata cannot be read: {error!r}") from error
    try:
        image = read_image(data, form, module.name, names=names, log=log).with_floats(floats)
        return CodeArtifact(specialization, image, parse_arch(arch), timings)
    except DeviceCodeError as error:
        raise UnusableCodeError(f"the code cannot be read: {error.what}") from error
