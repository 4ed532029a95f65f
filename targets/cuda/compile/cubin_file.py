"""Reads a cubin: its architecture, and of each kernel its parameters and what it takes.

A cubin is an ELF file. The attributes of kernels are in its ``.nv.info`` sections, as pairs of a
number and a value. NVIDIA describes them nowhere; the numbers are those that ``cuobjdump -elf``
names, and the tests compare what is read with ptxas.

References
----------
System V ABI, "Object Files" (ELF64); CUDA Binary Utilities, section "cuobjdump".
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kerneldsl.contract import Resources
from kerneldsl.errors import DeviceCodeError, ToolMissingError
from kerneldsl.frontend.linked_code import CodeForm, form_of_binary
from targets.cuda.architectures import ARCHITECTURES
from targets.cuda.compile.linker import find_linker, link_inputs
from targets.cuda.compile.ptxas import assemble, find_ptxas, threads_with

__all__ = ["CubinFile", "DeclaredParameter", "Entry", "make_cubin", "read_cubin"]

_MAGIC = b"\x7fELF\x02\x01"
_EM_CUDA = 190
#: First version of NVIDIA's ABI with the architecture in the second byte of the flags.
_ABI_OF_CUDA_13 = 8
_SHT_SYMTAB = 2
_STT_FUNC = 2
#: A bit of NVIDIA's in a symbol's `other`, of kernels and not of device functions.
_IS_KERNEL = 0x10
#: Shared memory that the system has of each block from compute capability 9.0 on.
_SYSTEM_SHARED_BYTES = 1024

_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")

# Attributes in .nv.info sections.
_MAX_THREADS, _FRAME_SIZE, _PARAMETER, _REGISTERS = 0x05, 0x11, 0x17, 0x2F
#: The format of an attribute with a value of any length.
_SIZED = 4


class DeclaredParameter(NamedTuple):
    """A parameter as a kernel declares it."""

    #: Bytes from the first parameter.
    offset: int
    #: Size of the parameter in bytes.
    nbytes: int
    #: Whether the parameter is a float; ``None`` if that is unknown, as in a cubin.
    is_float: bool | None = None


class Entry(NamedTuple):
    """A kernel of compiled code."""

    #: Parameters in order.
    parameters: tuple[DeclaredParameter, ...]
    #: Resources of the kernel; ``None`` where only an assembler can determine them.
    resources: Resources | None = None


class CubinFile(NamedTuple):
    """The contents of a cubin."""

    #: The architecture, such as 90 for ``sm_90`` and ``sm_90a``.
    number: int
    #: Kernels of the file, by name.
    entries: Mapping[str, Entry]


class _Section(NamedTuple):
    name: str
    kind: int
    data: bytes
    nbytes: int
    link: int


class _Symbol(NamedTuple):
    name: str
    is_kernel: bool


def read_cubin(data: bytes, name: str) -> CubinFile:
    """Read a cubin.

    - `data`: the file.
    - `name`: its name, for messages.
    - raises `DeviceCodeError` if it is no cubin, or a part of it is missing.
    """
    if form_of_binary(data) is not CodeForm.CUBIN:
        raise DeviceCodeError(
            f"{name} is neither PTX nor a cubin: it begins with {data[:8]!r}",
            value=len(data),
            limit="PTX is text with .version, and a cubin is an ELF file",
            remedy="Write it again, as by nvcc -cubin or kernel.cubin()",
        )
    try:
        return _read(data)
    except (struct.error, LookupError, ValueError) as error:
        raise DeviceCodeError(
            f"{name} is not a whole cubin: {error}",
            value=len(data),
            limit=f"It has {len(data)} bytes, and a cubin is an ELF file of NVIDIA's",
            remedy="Write it again, as by nvcc -cubin or kernel.cubin()",
        ) from error


def _read(data: bytes) -> CubinFile:
    if not data.startswith(_MAGIC):
        raise ValueError(f"it begins with {data[:8]!r}")
    (machine,) = struct.unpack_from("<H", data, 18)
    if machine != _EM_CUDA:
        raise ValueError(f"it is for the ELF machine {machine}")
    (flags,) = struct.unpack_from("<I", data, 48)
    number = flags >> 8 & 0xFF if data[8] >= _ABI_OF_CUDA_13 else flags & 0xFF
    sections = _sections(data)
    symbols = _symbols(sections)
    by_name = {section.name: section for section in sections}
    common: dict[int, dict[int, int]] = {}
    for kind, value in _attributes(by_name[".nv.info"].data if ".nv.info" in by_name else b""):
        if kind in (_REGISTERS, _FRAME_SIZE):
            owner, amount = struct.unpack_from("<II", value)
            common.setdefault(owner, {})[kind] = amount
    entries = {}
    for index, symbol in enumerate(symbols):
        if symbol.is_kernel and f".text.{symbol.name}" in by_name:
            entries[symbol.name] = _entry(symbol.name, by_name, common.get(index, {}))
    if not entries:
        raise ValueError("it has no kernel")
    return CubinFile(number, entries)


def _sections(data: bytes) -> list[_Section]:
    programs, table = struct.unpack_from("<QQ", data, 32)
    program_size, program_count, size, count, names_at = struct.unpack_from("<HHHHH", data, 54)
    if programs + program_size * program_count > len(data):
        raise ValueError("its program headers are not in it")
    if size != _SECTION.size:
        raise ValueError(f"its sections are described in {size} bytes each")
    rows = [_SECTION.unpack_from(data, table + size * i) for i in range(count)]
    names = _bytes_of(data, rows[names_at])
    return [
        _Section(_text(names, row[0]), row[1], _bytes_of(data, row), row[5], row[6]) for row in rows
    ]


def _bytes_of(data: bytes, row: tuple[int, ...]) -> bytes:
    kind, offset, size = row[1], row[4], row[5]
    if kind == 8:  # SHT_NOBITS, a section without bytes in the file
        return b""
    if offset + size > len(data):
        raise ValueError(f"a section ends at byte {offset + size}")
    return data[offset : offset + size]


def _symbols(sections: list[_Section]) -> list[_Symbol]:
    for section in sections:
        if section.kind == _SHT_SYMTAB:
            names = sections[section.link].data
            rows = _SYMBOL.iter_unpack(section.data)
            return [
                _Symbol(_text(names, name), info & 15 == _STT_FUNC and bool(other & _IS_KERNEL))
                for name, info, other, *_ in rows
            ]
    raise ValueError("it has no symbols")


def _entry(name: str, sections: Mapping[str, _Section], common: Mapping[int, int]) -> Entry:
    info = sections.get(f".nv.info.{name}")
    parameters: dict[int, DeclaredParameter] = {}
    most = ARCHITECTURES["sm_75"].max_threads_per_block
    for kind, value in _attributes(info.data if info is not None else b""):
        if kind == _PARAMETER:
            _, ordinal, offset, packed = struct.unpack_from("<IHHI", value)
            parameters[ordinal] = DeclaredParameter(offset, packed >> 18)
        elif kind == _MAX_THREADS:
            most = min(most, math.prod(struct.unpack_from("<III", value)))
    registers = common.get(_REGISTERS)
    local_bytes = common.get(_FRAME_SIZE, 0)
    shared = sections.get(f".nv.shared.{name}")
    shared_bytes = 0 if shared is None else shared.nbytes
    if ".nv.shared.reserved.0" in sections:
        shared_bytes = max(0, shared_bytes - _SYSTEM_SHARED_BYTES)
    return Entry(
        tuple(parameters[i] for i in range(len(parameters))),
        Resources(
            registers=registers,
            # Only the assembler's log says which part of local memory is spills.
            spill_bytes=None if local_bytes else 0,
            local_bytes=local_bytes,
            static_shared_bytes=shared_bytes,
            max_block_threads=min(most, threads_with(registers or 0)),
        ),
    )


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Return the attributes that have a value of some length."""
    at = 0
    while at < len(data):
        form, kind, size = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == _SIZED:
            if at + size > len(data):
                raise ValueError("an attribute ends after its section")
            yield kind, data[at : at + size]
            at += size


def _text(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode()


# Machine code of a kernel for a file: by ptxas, or by nvJitLink if ptxas is missing.


def make_cubin(ptx: str, arch: str) -> bytes:
    """Return the machine code of PTX, an ELF file.

    Raises `ToolMissingError` if both ptxas and nvJitLink are missing, or ptxas does not know the
    architecture. Raises `CompileError` where the PTX is refused.
    """
    try:
        find_ptxas()
    except ToolMissingError as missing:
        linker = find_linker()
        if linker is None:
            raise ToolMissingError(
                "machine code needs ptxas or the nvJitLink library, and neither was found",
                value="ptxas",
                limit=missing.limit,
                remedy="Run: pip install nvidia-cuda-nvcc (ptxas), or write PTX, which the "
                "driver compiles",
            ) from missing
        return link_inputs(linker, [(CodeForm.PTX, ptx.encode(), "the PTX")], arch)
    return assemble(ptx, arch).cubin
