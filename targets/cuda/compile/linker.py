"""Link PTX with machine code and LTO-IR by the nvJitLink library.

References
----------
nvJitLink documentation, "Code Example", "Linking" and "Options"; System V ABI, "Object Files".
"""

from __future__ import annotations

import importlib.util
import struct
from collections.abc import Sequence
from typing import Any

from kerneldsl.errors import CompileError, DeviceCodeError, ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm, LinkedCode
from targets.cuda.compile.fatbin import read_fatbin
from targets.cuda.compile.ptx_lines import is_for_debuggers

__all__ = ["find_linker", "link_binaries", "link_inputs"]

#: Forms of code to the names of nvJitLink's types of input.
_TYPES = {
    CodeForm.PTX: "PTX",
    CodeForm.CUBIN: "CUBIN",
    CodeForm.FATBIN: "FATBIN",
    CodeForm.LTO_IR: "LTOIR",
}

#: Fields of an ELF file's header: offsets, sizes and counts of the program and section headers.
#: Fields of a section's header: kind, offset and size.
_ELF = struct.Struct("<32sQQ6xHHHH")
_SECTION = struct.Struct("<4xI16xQQ")
#: The kind of a section without bytes in the file.
_NO_BITS = 8


def find_linker() -> Any | None:
    """Return the bindings of nvJitLink, if the library is there."""
    if importlib.util.find_spec("cuda") is None:
        return None
    try:
        from cuda.bindings import nvjitlink

        nvjitlink.version()
    except (ImportError, RuntimeError):  # no bindings, or they do not find the library
        return None
    return nvjitlink


def link_binaries(ptx: str, codes: Sequence[LinkedCode], arch: str) -> bytes:
    """Return the machine code of PTX that calls compiled functions, an ELF file.

    Raises `ToolMissingError` without nvJitLink. Raises `DeviceCodeError` if it refuses the code, or
    a function is missing.
    """
    linker = find_linker()
    if linker is None:
        raise ToolMissingError(
            f"{codes[0].name} is compiled code, and nvJitLink, which links it, was not found",
            value="nvJitLink",
            limit="Functions of PTX and CUDA C++ are linked without it",
            remedy='Run: pip install "kerneldsl[link13]", or "kerneldsl[link12]" for a driver of '
            "CUDA 12",
        )
    for code in codes:
        _require_whole(code)
    inputs = [(CodeForm.PTX, ptx.encode(), "kernel.ptx")]
    inputs += [(code.form, code.code, code.name) for code in codes]
    return link_inputs(linker, inputs, arch)


def _require_whole(code: LinkedCode) -> None:
    """Refuse a file that is cut off, over which nvJitLink ends the process."""
    if code.form is CodeForm.FATBIN:
        read_fatbin(code.code, code.name)
    elif code.form is CodeForm.CUBIN and len(code.code) < (size := _whole_size(code.code)):
        raise DeviceCodeError(
            f"{code.name} is cut off after {len(code.code)} bytes",
            value=len(code.code),
            limit=f"By its header it has {size}",
            remedy="Write it again",
        )


def _whole_size(code: bytes) -> int:
    """Return how many bytes an ELF file has by its headers."""
    if len(code) < _ELF.size:
        return _ELF.size
    programs, sections, *sizes = _ELF.unpack_from(code)[1:]
    program_size, program_count, section_size, section_count = sizes
    ends = [programs + program_size * program_count, sections + section_size * section_count]
    for number in range(section_count):
        at = sections + section_size * number
        if at + _SECTION.size > len(code):
            break
        kind, offset, size = _SECTION.unpack_from(code, at)
        ends.append(0 if kind == _NO_BITS else offset + size)
    return int(max(ends))


def link_inputs(linker: Any, inputs: Sequence[tuple[CodeForm, bytes, str]], arch: str) -> bytes:
    """Return the machine code of some inputs: the form of each, its contents, and its name.

    Raises `CompileError` where nvJitLink refuses one, with its log.
    """
    handle = None
    options = [f"-arch={arch}"]
    if any(form is CodeForm.LTO_IR for form, _, _ in inputs):
        options.append("-lto")
    texts = [contents for form, contents, _ in inputs if form is CodeForm.PTX]
    if any(is_for_debuggers(each.decode()) for each in texts):
        options.append("-g")
    elif any(b"\t.loc\t" in each for each in texts):
        options.append("-lineinfo")
    try:
        handle = linker.create(len(options), options)
        for form, contents, name in inputs:
            kind = getattr(linker.InputType, _TYPES[form])
            linker.add_data(handle, kind, contents, len(contents), name)
        linker.complete(handle)
        cubin = bytearray(linker.get_linked_cubin_size(handle))
        linker.get_linked_cubin(handle, cubin)
        return bytes(cubin)
    except linker.nvJitLinkError as error:
        log = _error_log(linker, handle)
        kind = CompileError if len(inputs) == 1 else DeviceCodeError
        raise kind(
            f"nvJitLink refuses {' with '.join(name for _, _, name in inputs)} for {arch}: "
            f"{log or error}",
            value=log,
            remedy=_remedy(inputs, log),
        ) from error
    finally:
        if handle is not None:
            linker.destroy(handle)


def _remedy(inputs: Sequence[tuple[CodeForm, bytes, str]], log: str) -> str:
    if len(inputs) == 1:
        return (
            "An older nvJitLink does not know a newer architecture: run pip install -U "
            "nvidia-nvjitlink, or pip install nvidia-cuda-nvcc for ptxas"
        )
    if "Undefined reference" in log and any(form is CodeForm.LTO_IR for form, _, _ in inputs):
        return (
            "Check the name, and compile LTO-IR from a file without kernels: of one with kernels, "
            "the linker keeps only what those call"
        )
    return "Compile the code as relocatable device code (-rdc=true), for this architecture"


def _error_log(linker: Any, handle: Any) -> str:
    if handle is None:
        return ""
    log = bytearray(linker.get_error_log_size(handle))
    linker.get_error_log(handle, log)
    return log.rstrip(b"\0").decode(errors="replace").strip()
