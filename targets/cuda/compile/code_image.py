"""Loadable images of a program's own CUDA C++, PTX or cubin.

CUDA C++ is compiled by NVRTC to a cubin, so that its parameters and resources are known without a
device. If NVRTC is older than the architecture, it makes PTX for the newest one that it knows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from weakref import WeakKeyDictionary

from kerneldsl.contract.device_code import CodeModule
from kerneldsl.errors import DeviceCodeError
from kerneldsl.frontend.linked_code import CodeForm
from kerneldsl.utilities.locks import OnceTable
from targets.cuda.architectures import ARCHITECTURES, Architecture, PtxVersion, parse_arch
from targets.cuda.compile.cubin_file import DeclaredParameter, Entry, read_cubin
from targets.cuda.compile.diagnostics import CudaText
from targets.cuda.compile.fatbin import choose_image
from targets.cuda.compile.ptx_lines import read_header

__all__ = ["Image", "compile_ptx", "find_image", "read_image", "read_ptx", "text_of"]

#: No version of PTX: a cubin has none.
_NO_PTX: PtxVersion = (0, 0)

_Key = tuple[str, tuple[str, ...]]
#: Images that this process compiled of each module, by architecture and kernels.
_images: WeakKeyDictionary[CodeModule, OnceTable[_Key, Image]] = WeakKeyDictionary()


class Image(NamedTuple):
    """Code that a driver can load."""

    #: The code: PTX, or a cubin.
    data: bytes
    #: Form of the code.
    form: CodeForm
    #: Target architecture of the code.
    arch: Architecture
    #: The version of PTX; 0.0 of a cubin.
    ptx_version: PtxVersion
    #: Kernels of the code, by name.
    entries: Mapping[str, Entry]
    #: Name expression to name in the code, of CUDA C++.
    names: Mapping[str, str]
    #: Log of the compiler.
    log: str

    @property
    def ptx(self) -> str:
        """The PTX; empty for a cubin."""
        return self.data.decode() if self.form is CodeForm.PTX else ""

    def with_floats(self, floats: Mapping[str, Sequence[bool | None]]) -> Image:
        """Return the code with what is known of its parameters: whether each is a float.

        The parameters of a cubin have sizes alone.
        """
        entries = dict(self.entries)
        for name, known in floats.items():
            entry = entries.get(name)
            if entry is not None and len(known) == len(entry.parameters):
                pairs = zip(entry.parameters, known, strict=True)
                typed = tuple(each._replace(is_float=is_float) for each, is_float in pairs)
                entries[name] = entry._replace(parameters=typed)
        return self._replace(entries=entries)

    def runs_on(self, device: Architecture) -> bool:
        """Return whether devices of an architecture can run it."""
        is_of_major = self.arch.compute_capability[0] == device.compute_capability[0]
        can_be_assembled = self.form is not CodeForm.CUBIN or is_of_major
        return can_be_assembled and self.arch.assembles_for(device)


def text_of(module: CodeModule) -> CudaText:
    """Return the source of CUDA C++ as NVRTC takes it."""
    return CudaText(module.text, module.name, module.written_in)


def find_image(module: CodeModule, arch: str) -> Image:
    """Compile a module for an architecture, or read what is compiled; once in a process.

    - raises `DeviceCodeError` if the source is refused, or the file is not PTX or a cubin.
    - raises `ToolMissingError` if NVRTC is needed and not installed.
    """
    images = _images.setdefault(module, OnceTable())
    return images.get_or_make((arch, module.entries), lambda: _make_image(module, arch))


def _make_image(module: CodeModule, arch: str) -> Image:
    if module.form is CodeForm.FATBIN:
        chosen = choose_image(module.contents, module.name, parse_arch(arch))
        return read_image(chosen.contents, chosen.form, module.name)
    if module.form is not CodeForm.CUDA:
        return read_image(module.contents, module.form, module.name)
    # Code in the cache does not need the compiler.
    from targets.cuda.compile.nvrtc import compile_text, supported_architectures

    architecture, form = parse_arch(arch), CodeForm.CUBIN
    known = supported_architectures()
    if architecture.number not in known and min(known) < architecture.number:
        newest = max(number for number in known if number < architecture.number)
        architecture, form = ARCHITECTURES[f"sm_{newest}"], CodeForm.PTX
    entries = module.entries
    made = compile_text(
        text_of(module), architecture.name, module.options, form=form, expressions=entries
    )
    image = read_image(made.code, made.form, module.name, names=made.names, log=made.log)
    if not made.ptx:
        return image
    declared = read_ptx(made.ptx.decode(), module.name)
    return image.with_floats(
        {name: [each.is_float for each in entry.parameters] for name, entry in declared.items()}
    )


def compile_ptx(module: CodeModule, arch: str) -> str:
    """Compile CUDA C++ to PTX, to look at."""
    from targets.cuda.compile.nvrtc import compile_text

    made = compile_text(
        text_of(module), arch, module.options, form=CodeForm.PTX, expressions=module.entries
    )
    return made.code.decode()


def read_image(
    data: bytes,
    form: CodeForm,
    name: str,
    *,
    names: Mapping[str, str] | None = None,
    log: str = "",
) -> Image:
    """Read PTX or a cubin.

    - raises `DeviceCodeError` if it is neither.
    """
    if form is CodeForm.CUBIN:
        cubin = read_cubin(data, name)
        arch = ARCHITECTURES.get(f"sm_{cubin.number}")
        if arch is None:
            raise DeviceCodeError(
                f"{name} is a cubin for the architecture {cubin.number}",
                value=cubin.number,
                limit=f"Known architectures are {', '.join(ARCHITECTURES)}",
                remedy="Compile it for one of them",
            )
        return Image(data, form, arch, _NO_PTX, cubin.entries, names or {}, log)
    try:
        text = data.rstrip(b"\0").decode()
    except UnicodeDecodeError as error:
        raise DeviceCodeError(
            f"{name} is not PTX: {error}", value=name, limit="PTX is text in UTF-8"
        ) from error
    entries = read_ptx(text, name)
    header = read_header(text)
    assert header is not None
    version, target = header
    return Image(text.encode(), form, _target(target, name), version, entries, names or {}, log)


def _target(target: str, name: str) -> Architecture:
    """Return the architecture of PTX, which may be older than what is compiled for."""
    known = ARCHITECTURES.get(target)
    if known is None and re.fullmatch(r"sm_[2-5]\d", target):
        return Architecture(target, (1, 0))
    if known is None:
        raise DeviceCodeError(
            f"{name} is PTX for {target}",
            value=target,
            limit=f"Known architectures are {', '.join(ARCHITECTURES)}",
            remedy="Compile it for one of them",
        )
    return known


# Reads the kernels of PTX that others wrote, with their parameters.
#
# See PTX ISA, sections "Kernel and Function Directives" and "Kernel Function Parameter Attributes".

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENTRY = re.compile(r"\.entry\s+([\w$%]+)\s*(?:\(([^)]*)\))?")
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.([bfsu])(\d+)\s+(?:\.ptr(?:\s+\.\w+)*(?:\s+\d+)?\s+)?"
    r"[\w$%]+(?:\[(\d+)\])?\s*$"
)


#: Letters of types to whether a value is a float; bits may be anything.
_IS_FLOAT = {"f": True, "s": False, "u": False, "b": None}


def read_ptx(text: str, name: str) -> Mapping[str, Entry]:
    """Read the kernels of PTX.

    - `text`: the PTX.
    - `name`: its name, for messages.
    - raises `DeviceCodeError` if it is not PTX, or declares a parameter in another way than the PTX
      ISA.

    Examples
    --------
    >>> head = ".version 8.0\\n.target sm_80\\n"
    >>> text = ".entry f(.param .u64 x, .param .align 4 .b8 s[12]) {}"
    >>> read_ptx(head + text, "f.ptx")["f"].parameters[1]
    DeclaredParameter(offset=8, nbytes=12, is_float=None)
    """
    plain = _COMMENT.sub(" ", text)
    if read_header(plain) is None:
        raise DeviceCodeError(
            f"{name} is not PTX",
            value=text[:80],
            limit="PTX begins with .version and .target (PTX ISA, PTX Module Directives)",
            remedy="Pass the PTX of nvcc -ptx, or of kernel.ptx()",
        )
    *_, last = plain.split(".entry")
    if ".entry" in plain and (plain.count("{") > plain.count("}") or "{" not in last):
        raise DeviceCodeError(
            f"{name} is not whole: its last function has no end",
            value=last[:80],
            limit=f"It has {len(text)} characters, and each function of PTX ends with a brace",
            remedy="Write it again, as by nvcc -ptx or kernel.ptx()",
        )
    found = {
        match[1]: Entry(_parameters(match[2] or "", match[1], name))
        for match in _ENTRY.finditer(plain)
    }
    if not found:
        raise DeviceCodeError(
            f"{name} has no kernel",
            value=text[:80],
            limit="A kernel of PTX is an .entry",
            remedy="Compile a __global__ function",
        )
    return found


def _parameters(text: str, entry: str, name: str) -> tuple[DeclaredParameter, ...]:
    found: list[DeclaredParameter] = []
    end = 0
    for each in text.split(",") if text.strip() else ():
        match = _PARAMETER.match(each.strip())
        if match is None:
            raise DeviceCodeError(
                f"{entry} of {name} declares the parameter {each.strip()!r}",
                value=each,
                limit="A parameter is .param, a type and a name (PTX ISA, Kernel Function "
                "Parameters)",
            )
        item = int(match[3]) // 8
        align = int(match[1] or item)
        offset = -(-end // align) * align
        nbytes = item * int(match[4] or 1)
        found.append(DeclaredParameter(offset, nbytes, _IS_FLOAT[match[2]]))
        end = offset + found[-1].nbytes
    return tuple(found)
