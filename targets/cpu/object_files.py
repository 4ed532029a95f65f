"""Validation of an object file before LLVM links it.

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
from typing import Any

__all__ = ["BadObjectError", "check_object", "undefined_symbols"]

_HEADER = struct.Struct("=4sBBBB8xHHIQQQIHHHHHH")
_SECTION = struct.Struct("=IIQQQQIIQQ")
_SYMBOL = struct.Struct("=IBBHQQ")
_64_BITS, _LITTLE, _BIG, _RELOCATABLE = 2, 1, 2, 1
#: ``e_machine`` by what Python calls a machine.
_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "s390x": 22, "riscv64": 243}
_SYMBOL_TABLE, _GLOBAL_FUNCTION, _UNDEFINED = 2, 1 << 4 | 2, 0


class BadObjectError(Exception):
    """The file is no object file that can be linked here, or has no such function."""


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
        header = _read_header(code)
        found = tuple(
            name.decode() for name, _, section, _ in _symbols(code, header) if section == _UNDEFINED
        )
    except (struct.error, IndexError, ValueError, OverflowError) as error:
        raise BadObjectError(f"its tables make no sense: {error}") from error
    return tuple(name for name in found if name)


def _functions(code: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Return the global functions that the file defines: names, places, bytes of their sections."""
    header = _read_header(code)
    machine = header[6]
    if machine != _MACHINES.get(platform.machine(), machine):
        raise BadObjectError(f"it is for machine {machine}, and this is a {platform.machine()}")
    sections = _sections(code, header)
    for name, information, section, value in _symbols(code, header):
        if information == _GLOBAL_FUNCTION and section != _UNDEFINED:
            yield name, value, sections[section][5]


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


def _sections(code: bytes, header: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    at, entry_bytes, count = header[10], header[15], header[16]
    if entry_bytes != _SECTION.size:
        raise BadObjectError(f"a section header has {entry_bytes} bytes")
    return [_SECTION.unpack_from(code, at + i * entry_bytes) for i in range(count)]


def _symbols(code: bytes, header: tuple[Any, ...]) -> Iterator[tuple[bytes, int, int, int]]:
    """Return each symbol: its name, what it is, the number of its section, and its value."""
    sections = _sections(code, header)
    # An object file has one symbol table.
    table = next((each for each in sections if each[1] == _SYMBOL_TABLE), None)
    if table is None:
        raise BadObjectError("it has no symbols")
    start, nbytes, link = table[4:7]
    names = code[sections[link][4] : sections[link][4] + sections[link][5]]
    for place in range(start, start + nbytes, _SYMBOL.size):
        name, information, _, section, value, _ = _SYMBOL.unpack_from(code, place)
        yield names[name : names.index(b"\0", name)], information, section, value
