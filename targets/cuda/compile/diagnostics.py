"""Errors of CUDA C++, read from NVRTC's log: at the file, line and column of the user's source."""

from __future__ import annotations

import linecache
import os
import re
from dataclasses import replace
from typing import NamedTuple

from kerneldsl.errors import DeviceCodeError, SourceLocation
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["CudaText", "Diagnostic", "compile_error", "read_log"]

_MESSAGE = re.compile(
    r"^(?P<file>.+?)\((?P<line>\d+)\): (?P<kind>(?:catastrophic |internal )?error|warning|remark)"
    r"(?: #[\w-]+)?: (?P<text>.*)$"
)
#: NVRTC shows the line of the source after two blanks, and a caret below it.
_MARGIN = 2
#: Beginnings of the names of headers, and the extras that install them, without the release.
_HEADERS_OF_EXTRAS = {
    r"(cub|thrust|nv|cuda)/": "cccl",
    r"cuda_|cooperative_groups|mma\.h|math_constants\.h|vector_": "nvrtc",
}
#: Headers of the standard libraries of C++ and C.
_OF_LIBRARY = re.compile(r"[a-z_]+|(assert|float|limits|math|stdint|stdio|stdlib|string)\.h")
#: Name in place of a file in NVRTC's messages about a name expression.
_NAME_EXPRESSIONS = "__nv_name_map"
#: Lines of a message: what and where are four of them, with the line of the source and a caret.
_MAX_MORE = 5


class Diagnostic(NamedTuple):
    """One message of the compiler."""

    where: SourceLocation
    text: str
    is_error: bool


class NvrtcLog(Exception):
    """A compiler's whole log, as the cause of an error; ``error.details`` shows it."""


def read_log(log: str) -> tuple[Diagnostic, ...]:
    """Find the messages in a log that name a line.

    Examples
    --------
    >>> log = 'a.cu(2): error: identifier "y" is undefined\\n    x = y;\\n        ^\\n'
    >>> (found,) = read_log(log)
    >>> found.text, found.where.lineno, found.where.col_offset
    ('identifier "y" is undefined', 2, 6)
    """
    lines = log.splitlines()
    found = []
    for i, line in enumerate(lines):
        match = _MESSAGE.match(line)
        if match is None:
            continue
        column = _column(lines[i + 1 : i + 3])
        where = SourceLocation(match["file"], int(match["line"]), column)
        found.append(Diagnostic(where, match["text"], match["kind"].endswith("error")))
    return tuple(found)


def _column(shown: list[str]) -> int | None:
    """Return the column in characters that a caret is at, which NVRTC counts in bytes."""
    if len(shown) < 2 or shown[1].strip() != "^":
        return None
    source, caret = shown[0][_MARGIN:].encode(), shown[1].index("^") - _MARGIN
    return len(source[:caret].decode(errors="replace")) if caret >= 0 else None


def compile_error(log: str, what: str, source: CudaText, arch: str) -> DeviceCodeError:
    """Compose the error for a log, in ten lines at most.

    - `log`: the compiler's log, which :attr:`KernelError.details` then shows.
    - `what`: name of the compiled code, in a few words.
    - `arch`: the architecture that it was compiled for.
    """
    errors = [each for each in read_log(log) if each.is_error]
    limit = None
    if errors and errors[0].where.filename == _NAME_EXPRESSIONS:
        message, where, more = errors[0].text, None, []
        limit = "It must be a kernel of the source; a template needs its arguments: scale<float>"
    elif errors:
        first, *others = errors
        message, where = first.text, source.locate(first.where)
        more = [f"{_place(source.locate(each.where))}: {each.text}" for each in others]
    else:
        lines = [line.strip() for line in log.splitlines() if line.strip()]
        told = [line for line in lines if "error" in line] or lines or ["NVRTC gives no reason"]
        message, where, more = told[0], None, told[1:]
    if len(more) > _MAX_MORE:
        more = [*more[: _MAX_MORE - 1], f"… and {len(more) - _MAX_MORE + 1} more errors"]
    error = DeviceCodeError(
        f"{what} does not compile for {arch}: {message}",
        where=where,
        value=log,
        limit=limit,
        remedy=_remedy(message),
        chain=tuple(more),
    )
    error.__cause__ = NvrtcLog(log)
    return error


def _remedy(message: str) -> str | None:
    """Return what to do about a header that is not found, and about a limit of a block."""
    if "uses too much shared data" in message:
        return (
            "Use less, or declare the array extern __shared__, and pass its bytes: "
            "kernel[grid, block, stream, shared_bytes]"
        )
    found = re.search(r'open source file "([^"]+)"', message)
    if found is None:
        return None
    for pattern, extra in _HEADERS_OF_EXTRAS.items():
        if re.match(pattern, found[1]):
            newest, older = (f'"kerneldsl[{extra}{release}]"' for release in (13, 12))
            return f"Run: pip install {newest}, or {older} for a driver of CUDA 12"
    if _OF_LIBRARY.fullmatch(found[1]):
        return (
            "Leave it out: NVRTC has no standard library. CCCL has a part of it for devices, such "
            "as <cuda/std/cmath>, <cuda/std/cstdint> and <cuda/std/array>"
        )
    return "Name its folder: options=kd.CudaOptions(include=[…])"


def _place(where: SourceLocation) -> str:
    """Return file, line and column, which a compiler counts from 1."""
    return str(where) if where.col_offset is None else f"{where}:{where.col_offset + 1}"


# A source of CUDA C++: its text, its name, and its place in the user's files.

#: A file can be in no such folder, so that a text has no headers beside it.
_NO_FOLDER = "/dev/null"


@dataclass(frozen=True, slots=True)
class CudaText:
    """A source of CUDA C++."""

    #: The source.
    text: str
    #: Name in messages: an absolute path, or a name such as ``<saxpy>`` of a text that is in no
    #: file.
    name: str
    #: The file of Python that has the text, if it is known.
    written_in: str = ""

    @property
    def folder(self) -> str | None:
        """The folder of headers beside the source; ``None`` for a text that is in no file."""
        return None if self.name.startswith("<") else os.path.dirname(self.name)

    @property
    def unique_name(self) -> str:
        """The name that NVRTC is given, in which a text has a folder that does not exist."""
        return f"{_NO_FOLDER}/{self.name}" if self.folder is None else self.name

    def locate(self, where: SourceLocation) -> SourceLocation:
        """Return the place in the user's file of a place in this source.

        That is a line of the Python file if the text is written there once, as it is. A text that
        is not found there gets its lines by its own name.
        """
        if where.filename != self.name or self.folder is not None:
            return where
        file = "".join(linecache.getlines(self.written_in)) if self.written_in else ""
        if file.count(self.text) != 1:
            lines = self.text.splitlines(keepends=True)
            # An entry without a time is not compared with a file's time by linecache.
            linecache.cache[self.name] = (len(self.text), None, lines, self.name)
            return where
        before = file[: file.index(self.text)]
        lineno = where.lineno + before.count("\n")
        column = where.col_offset
        if column is not None and where.lineno == 1:
            column += len(before) - before.rfind("\n") - 1
        return replace(where, filename=self.written_in, lineno=lineno, col_offset=column)
