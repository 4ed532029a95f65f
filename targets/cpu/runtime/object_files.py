"""Reading of object files, and their validation before they are linked.

LLVM takes a name that the file does not define from the process: an entry of the name ``malloc``
would be found, and called as a kernel. And it may end the process over a file for another machine.

References
----------
System V Application Binary Interface, chapters "Object Files" and "Symbol Table".
"""

from __future__ import annotations

import platform
import struct
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

__all__ = [
    "BadObjectError",
    "Section",
    "Symbol",
    "check_object",
    "sections_of",
    "symbols_of",
    "undefined_symbols",
]

_HEADER = struct.Struct("=4sBBBB8xHHIQQQIHHHHHH")
_SECTION = struct.Struct("=IIQQQQIIQQ")
_SYMBOL = struct.Struct("=IBBHQQ")
_64_BITS, _LITTLE, _BIG, _RELOCATABLE = 2, 1, 2, 1
#: ``e_machine`` by what Python calls a machine.
_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "s390x": 22, "riscv64": 243}
_SYMBOL_TABLE, _GLOBAL_FUNCTION, _UNDEFINED = 2, 1 << 4 | 2, 0


class BadObjectError(Exception):
    """The file is no object file that can be linked here, or has no such function."""


class Section(NamedTuple):
    """A section, as its header describes it.

    Attributes
    ----------
    name, type, flags, address : int
        The name's place in the table of names, and numbers of the format.
    offset, nbytes : int
        Its contents in the file.
    link, info : int
        Numbers of other sections, by the type.
    alignment, entry_bytes : int
        What its address is a multiple of, and the size of its entries.
    """

    name: int
    type: int
    flags: int
    address: int
    offset: int
    nbytes: int
    link: int
    info: int
    alignment: int
    entry_bytes: int


class Symbol(NamedTuple):
    """A symbol.

    Attributes
    ----------
    name : bytes
        Its name.
    information : int
        Binding and type.
    section : int
        Number of its section, or a number of the format.
    value, nbytes : int
        Its place in the section, and its size.
    """

    name: bytes
    information: int
    section: int
    value: int
    nbytes: int


def check_object(code: bytes, function: str) -> tuple[int, int]:
    """Check that an ELF object file is for this machine and defines a function.

    Returns
    -------
    tuple of int
        Bytes before the function in its section, and those of the whole section.

    Raises
    ------
    BadObjectError
        The file is for another machine, or has no such function; with the reason.
    """
    try:
        wanted = function.encode()
        if not wanted or b"\0" in wanted:
            raise BadObjectError(f"{function!r} is not the name of a function")
        for name, before, nbytes in _functions(code):
            if name == wanted:
                return before, nbytes
        raise BadObjectError(f"it defines no function {function!r}")
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise BadObjectError(f"its tables make no sense: {error}") from error


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Return the names that an ELF object file for any machine takes from others.

    Raises
    ------
    BadObjectError
        It is not an object file.
    """
    try:
        found = tuple(each.name.decode() for each in symbols_of(code) if each.section == _UNDEFINED)
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise BadObjectError(f"its tables make no sense: {error}") from error
    return tuple(name for name in found if name)


def _functions(code: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Return the global functions that the file defines: names, places, bytes of their sections."""
    machine = _read_header(code)[6]
    if machine != _MACHINES.get(platform.machine(), machine):
        raise BadObjectError(f"it is for machine {machine}, and this is a {platform.machine()}")
    sections = sections_of(code)
    for each in symbols_of(code):
        if each.information == _GLOBAL_FUNCTION and each.section != _UNDEFINED:
            yield each.name, each.value, sections[each.section].nbytes


def _read_header(code: bytes) -> tuple[Any, ...]:
    """Return the header of a relocatable file of 64 bits in this machine's byte order."""
    header = _HEADER.unpack_from(code)
    magic, bits, order = header[:3]
    if magic != b"\x7fELF":
        raise BadObjectError("it is not an ELF file")
    if bits != _64_BITS or order != (_LITTLE if sys.byteorder == "little" else _BIG):
        raise BadObjectError("it is for a machine of another kind")
    if header[5] != _RELOCATABLE:
        raise BadObjectError("it is not a relocatable file")
    return header


def sections_of(code: bytes) -> list[Section]:
    """Return the sections of an object file; raise as `struct`, or `BadObjectError`."""
    header = _read_header(code)
    at, entry_bytes, count = header[10], header[15], header[16]
    if entry_bytes != _SECTION.size:
        raise BadObjectError(f"a section header has {entry_bytes} bytes")
    return [Section(*_SECTION.unpack_from(code, at + i * entry_bytes)) for i in range(count)]


def symbols_of(code: bytes) -> Iterator[Symbol]:
    """Return each symbol, in the order of the table; raise as :func:`sections_of`."""
    sections = sections_of(code)
    # An object file has one symbol table.
    table = next((each for each in sections if each.type == _SYMBOL_TABLE), None)
    if table is None:
        raise BadObjectError("it has no symbols")
    strings = sections[table.link]
    names = code[strings.offset : strings.offset + strings.nbytes]
    for place in range(table.offset, table.offset + table.nbytes, _SYMBOL.size):
        name, information, _, section, value, nbytes = _SYMBOL.unpack_from(code, place)
        yield Symbol(names[name : names.index(b"\0", name)], information, section, value, nbytes)
