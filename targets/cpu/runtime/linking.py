"""Read, check and link object files without LLVM.

LLVM takes a name that the file does not define from the process. It would find an entry of the name
``malloc``, which would be called as a kernel. And it may end the process over a file for another
machine.

To import LLVM takes longer than all else that a first launch of shipped code does. Object files of
kernels are simple: one or two sections of code, constants, and calls of C's functions. This module
links those for x86-64; all others are left to LLVM.

References
----------
System V Application Binary Interface, chapters "Object Files" and "Symbol Table"; AMD64
Architecture Processor Supplement, sections "Relocation" and "Procedure Linkage Table".
"""

from __future__ import annotations

import ctypes
import functools
import platform
import struct
import sys
import weakref
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

__all__ = [
    "IS_SUPPORTED",
    "BadObjectError",
    "CannotLinkError",
    "check_object",
    "function_of",
    "link",
    "sections_of",
    "undefined_symbols",
]

_HEADER = struct.Struct("=4sBBBB8xHHIQQQIHHHHHH")
_SECTION = struct.Struct("=IIQQQQIIQQ")
_SYMBOL = struct.Struct("=IBBHQQ")
_64_BITS, _LITTLE, _BIG, _RELOCATABLE = 2, 1, 2, 1
#: ``e_machine`` by Python's name of the machine.
_MACHINES = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "s390x": 22, "riscv64": 243}
_SYMBOL_TABLE, _GLOBAL_FUNCTION, _UNDEFINED = 2, 1 << 4 | 2, 0


class BadObjectError(Exception):
    """The file is no object file that can be linked here, or has no such function."""


class Section(NamedTuple):
    """A section, as its header describes it."""

    #: The name's place in the table of names, and numbers of the format.
    name: int
    type: int
    flags: int
    address: int
    #: Offset and size of the contents in the file.
    offset: int
    nbytes: int
    #: Numbers of other sections, by the type.
    link: int
    info: int
    #: Alignment of the address, and the size of an entry, in bytes.
    alignment: int
    entry_bytes: int


class Symbol(NamedTuple):
    """A symbol."""

    name: bytes
    #: Binding and type.
    information: int
    #: Number of its section, or a number of the format.
    section: int
    #: Offset in the section, and size, in bytes.
    value: int
    nbytes: int


def check_object(code: bytes, function: str) -> tuple[int, int]:
    """Check that an ELF object file is for this machine and defines a function.

    - returns: bytes before the function in its section, and those of the whole section.
    - raises `BadObjectError`: the file is for another machine, or has no such function; with the
      reason.
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

    - raises `BadObjectError`: it is not an object file.
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


# -- linking of an object file into this process, without LLVM ------------------------------------


#: Whether the kinds of relocations are known here.
IS_SUPPORTED = sys.platform == "linux" and platform.machine() == "x86_64"

_ALLOCATED, _EXECUTABLE = 2, 4
_NO_BITS, _RELOCATIONS = 8, 4
_ABSOLUTE, _COMMON = 0xFFF1, 0xFFF2
_RELOCATION, _ADDRESS = struct.Struct("<QIIq"), struct.Struct("<Q")
_WORDS = {4: struct.Struct("<i"), 8: struct.Struct("<q")}
#: ``jmp *offset(%rip)``, where the offset leads to a word of the table of addresses.
_JUMP, _JUMP_BYTES = b"\xff\x25", 6
_TABLE = b"_GLOBAL_OFFSET_TABLE_"
_READ, _WRITE, _EXECUTE = 1, 2, 4
_PRIVATE, _ANONYMOUS = 2, 0x20
_PAGE = 4096
#: Larger files are left to LLVM.
_MOST_BYTES = 1 << 28
#: The library of C's mathematics.
_C_MATH = "libm.so.6"


class CannotLinkError(Exception):
    """The file needs LLVM's linker, or the process lacks a function; the message says why."""


class CodeMemory:
    """Memory with machine code, which is freed with this, but not while the interpreter ends."""

    def __init__(self, nbytes: int) -> None:
        library = _c()
        found = library.mmap(None, nbytes, _READ | _WRITE, _PRIVATE | _ANONYMOUS, -1, 0)
        if found in (None, ctypes.c_void_p(-1).value):
            raise CannotLinkError("the system gives no memory")
        self.address = int(found)
        # Daemon threads may run the code until the process ends.
        weakref.finalize(self, library.munmap, self.address, nbytes).atexit = False

    def fill(self, contents: bytearray, code_bytes: int) -> None:
        """Write the contents; what is code can then be run, and no longer be written."""
        ctypes.memmove(self.address, bytes(contents), len(contents))
        if _c().mprotect(self.address, code_bytes, _READ | _EXECUTE) != 0:
            raise CannotLinkError("the system does not let new code run")


def link(code: bytes, entry: str, symbols: Mapping[str, int]) -> tuple[int, CodeMemory]:
    """Link an object file against the functions of this process, and `symbols` with addresses.

    :func:`check_object` has checked the file. Return the address of a function that it defines, the
    `entry`, and its memory, which the caller keeps as long as that.

    - raises `CannotLinkError`: it contains what this module does not know, or takes what the
      process does not have.
    """
    try:
        return _Linking(code, symbols).run(entry.encode())
    except (struct.error, LookupError, ValueError, ArithmeticError, BadObjectError) as error:
        raise CannotLinkError(f"its tables make no sense: {error}") from error


class _Linking:
    """One object file on its way into memory: code, jumps, then data and the table of addresses."""

    def __init__(self, code: bytes, symbols: Mapping[str, int]) -> None:
        self._code = code
        self._given = symbols
        self._sections = sections_of(code)
        self._symbols = list(symbols_of(code))
        #: Places of sections and of common symbols in the memory, and of words of the table.
        self._places: dict[int, int] = {}
        self._commons: dict[int, int] = {}
        self._words: dict[int, int] = {}
        self._base = self._table = self._jumps = 0
        self._contents = bytearray()

    def run(self, entry: bytes) -> tuple[int, CodeMemory]:
        """Place everything, apply the relocations, and return the address of the entry."""
        code_bytes = self._place_sections()
        memory = CodeMemory(len(self._contents))
        self._base = memory.address
        for section in self._sections:
            if section.type == _RELOCATIONS and section.info in self._places:
                self._relocate(section)
        memory.fill(self._contents, code_bytes)
        for number, symbol in enumerate(self._symbols):
            if symbol.name == entry:
                return self._address(number), memory
        raise CannotLinkError(f"it defines no function {entry!r}")

    def _place_sections(self) -> int:
        """Give each section its place, and fill the contents; return the bytes of the code's pages.

        What unwinds the stack for exceptions of C++ is left out.
        """
        used = [
            (number, each)
            for number, each in enumerate(self._sections)
            if each.flags & _ALLOCATED and each.nbytes and not self._unwinds(each)
        ]
        end = 0
        for number, section in used:
            if section.flags & _EXECUTABLE:
                end = self._place(number, section, end)
        self._jumps = end
        end += _JUMP_BYTES * len(self._symbols)
        code_bytes = end = -(-end // _PAGE) * _PAGE
        for number, section in used:
            if not section.flags & _EXECUTABLE:
                end = self._place(number, section, end)
        for number, symbol in enumerate(self._symbols):
            if symbol.section == _COMMON:  # its value is the alignment
                alignment = max(symbol.value, 1)
                self._commons[number] = -(-end // alignment) * alignment
                end = self._commons[number] + symbol.nbytes
        self._table = -(-end // _ADDRESS.size) * _ADDRESS.size
        end = self._table + _ADDRESS.size * len(self._symbols)
        if end > _MOST_BYTES:
            raise CannotLinkError(f"it takes {end} bytes")
        self._contents = bytearray(-(-end // _PAGE) * _PAGE)
        for number, section in used:
            if section.type != _NO_BITS:
                place = self._places[number]
                data = self._code[section.offset : section.offset + section.nbytes]
                self._contents[place : place + len(data)] = data
        return code_bytes

    def _place(self, number: int, section: Section, end: int) -> int:
        alignment = max(section.alignment, 1)
        if alignment > _PAGE:
            raise CannotLinkError(f"a section is aligned to {alignment} bytes")
        place = self._places[number] = -(-end // alignment) * alignment
        return place + section.nbytes

    def _unwinds(self, section: Section) -> bool:
        names = self._sections[_read_header(self._code)[-1]]  # the last word says which it is
        start = names.offset + section.name
        return self._code[start : self._code.index(b"\0", start)] == b".eh_frame"

    def _relocate(self, section: Section) -> None:
        start = self._places[section.info]
        for at in range(section.offset, section.offset + section.nbytes, _RELOCATION.size):
            offset, kind, number, addend = _RELOCATION.unpack_from(self._code, at)
            place = start + offset
            nbytes, value = self._value(kind, number, addend, self._base + place)
            if nbytes == 4 and not -(2**31) <= value < 2**31:
                raise CannotLinkError("an address is too far away")
            if kind == _ADDRESS_64:  # of the upper half, too
                _ADDRESS.pack_into(self._contents, place, value % 2**64)
            else:
                _WORDS[nbytes].pack_into(self._contents, place, value)

    def _value(self, kind: int, number: int, addend: int, place: int) -> tuple[int, int]:
        """Return how many bytes a relocation writes, and the value."""
        table = self._base + self._table
        if kind == _ADDRESS_64:
            return 8, self._address(number) + addend
        if kind in _RELATIVE:
            return _RELATIVE[kind], self._address(number) + addend - place
        if kind == _CALL:
            return 4, self._callable(number) + addend - place
        if kind in _WORD_RELATIVE:
            return 4, table + self._word(number) + addend - place
        if kind == _WORD_OF_TABLE:
            return 8, self._word(number) + addend
        if kind == _TABLE_RELATIVE:
            return 8, table + addend - place
        if kind == _FROM_TABLE:
            return 8, self._address(number) + addend - table
        raise CannotLinkError(f"it has a relocation of type {kind}")

    def _address(self, number: int) -> int:
        symbol = self._symbols[number]
        if symbol.section == _COMMON:
            return self._base + self._commons[number]
        if symbol.section == _ABSOLUTE:
            return symbol.value
        if symbol.section != _UNDEFINED:
            return self._base + self._places[symbol.section] + symbol.value
        if symbol.name == _TABLE:
            return self._base + self._table
        return self._outside(symbol)

    def _outside(self, symbol: Symbol) -> int:
        name = symbol.name.decode()
        found = self._given.get(name) or function_of(name, None, _C_MATH)
        if not found:
            raise CannotLinkError(f"the process has no {name!r}")
        return found

    def _word(self, number: int) -> int:
        """Return the place in the table of the word with a symbol's address."""
        known = self._words.get(number)
        if known is None:
            known = self._words[number] = _ADDRESS.size * len(self._words)
            _ADDRESS.pack_into(self._contents, self._table + known, self._address(number))
        return known

    def _callable(self, number: int) -> int:
        """Return an address in the memory, from which a symbol's function is run."""
        if self._symbols[number].section != _UNDEFINED:
            return self._address(number)
        place = self._jumps + _JUMP_BYTES * number
        word = self._table + self._word(number)
        jump = _JUMP + _WORDS[4].pack(word - place - _JUMP_BYTES)
        self._contents[place : place + _JUMP_BYTES] = jump
        return self._base + place


#: Types of relocations: an address; the bytes of one relative to its place; a call.
_ADDRESS_64, _RELATIVE, _CALL = 1, {2: 4, 24: 8}, 4
#: A word of the table of addresses relative to the place, and to the table.
_WORD_RELATIVE, _WORD_OF_TABLE = frozenset({9, 41, 42}), 27
#: The table relative to the place, and an address relative to the table.
_TABLE_RELATIVE, _FROM_TABLE = 29, 25


@functools.cache
def _c() -> Any:
    library = ctypes.CDLL(None)
    size, number = ctypes.c_size_t, ctypes.c_int
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, size, number, number, number, ctypes.c_long]
    library.munmap.argtypes = [ctypes.c_void_p, size]
    library.mprotect.argtypes = [ctypes.c_void_p, size, number]
    return library


@functools.cache
def function_of(name: str, *libraries: str | None) -> int:
    """Return the address of what one of some libraries has by a name; 0 for none.

    The first that has it counts. ``None`` is this process.
    """
    for library in libraries:
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (OSError, AttributeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0
