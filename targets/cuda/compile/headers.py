"""Headers of CUDA C++: the folders of the toolkit's, and which files a source includes.

NVRTC does not say what it has read. So the text is scanned for ``#include``, with all it includes.
Conditions are not evaluated: a file more in the digest costs a compilation, a file less would give
old code. Headers of the toolkit, 1800 with CUB, are not followed. Each of its folders has a digest,
which is remembered while all files in it are as they were.

References
----------
NVRTC documentation, "Supported Compile Options" (``--include-path``); C++20, [cpp.include].
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from kerneldsl.cache.remembered import Computed, remembered
from targets.cuda.compile.libdevice import toolkit_directories, wheel_directories

__all__ = [
    "included_files",
    "includes_anything",
    "includes_digest",
    "installed_headers",
    "toolkit_headers",
]

# The pattern begins with a rare character, so that most of a file is skipped quickly.
_DIRECTIVE = re.compile(
    rb"""\#[ \t]*(?:include(?:_next)?[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|[ \t]([A-Za-z_]\w*)[ \t]*$)
    |define[ \t]+(\w+)[ \t]+(?:"([^"\n]+)"|<([^>\n]+)>)[ \t]*$)""",
    re.MULTILINE | re.VERBOSE,
)
_CONTINUED = re.compile(rb"\\\r?\n")
#: Headers read again and again are scanned once; CUB and what it includes are 1400.
_MAX_SCANNED = 4096
#: A toolkit has 3000 headers.
_MAX_INSTALLED = 8192


@cache
def toolkit_headers(release: int) -> tuple[str, ...]:
    """Return the folders with the headers of a CUDA release and with CCCL's, those there are.

    Places: NVIDIA's wheels beside this Python's packages, and the toolkits of
    :func:`~targets.cuda.compile.libdevice.toolkit_directories`.
    """
    found: list[str] = []
    for known in ("cuda_runtime.h", "cub/cub.cuh"):
        for folder in _header_folders(release):
            if (folder / known).is_file():
                found.append(str(folder))
                break
    return tuple(dict.fromkeys(found))


def _header_folders(release: int) -> Iterator[Path]:
    for wheel in wheel_directories():
        names = [f"cu{release}"] if release >= 13 else ["cuda_runtime", "cuda_cccl"]
        for name in names:
            yield wheel / name / "include"
            yield wheel / name / "include" / "cccl"
    for root in toolkit_directories():
        yield root / "include"
        yield root / "include" / "cccl"


class _TooManyFilesError(Exception):
    """A folder has more files than a toolkit has, such as ``/usr/include``."""


def installed_headers(folder: str) -> bytes | None:
    """Return a digest of all files in a folder of the toolkit, and in the folders in it.

    It is ``None`` for a folder with more than a toolkit's headers, which are followed then.
    """
    try:
        return bytes.fromhex(remembered({"headers": folder}, lambda: _digest_of_folder(folder)))
    except (_TooManyFilesError, OSError):
        return None


def _digest_of_folder(folder: str) -> Computed:
    digest, files, folders = hashlib.sha256(), [], []
    for place, inner, names in os.walk(folder, followlinks=True):
        inner.sort()
        folders.append(place)
        files += [f"{place}/{name}" for name in sorted(names)]
        if len(files) > _MAX_INSTALLED:
            raise _TooManyFilesError
    for path in files:
        name = os.fsencode(path[len(folder) :])
        with open(path, "rb") as file:
            digest.update(name + b"\0" + hashlib.file_digest(file, "sha256").digest())
    return Computed(digest.hexdigest(), (*files, *folders))


class _Scanned(NamedTuple):
    """The includes of one file."""

    digest: bytes
    #: Names in quotation marks, in angle brackets, and macros in their place.
    quoted: tuple[str, ...]
    angled: tuple[str, ...]
    macros: tuple[str, ...]
    #: Macros that are defined as a header's name.
    defined: tuple[tuple[str, str], ...]


def included_files(
    text: str,
    folder: str | None,
    include: Sequence[str],
    macros: Iterable[tuple[str, str]] = (),
    installed: Collection[str] = (),
) -> dict[str, bytes | None]:
    """Find all files that a source may include, directly or through another one.

    - `text`: the source.
    - `folder`: its folder, which names in quotation marks are searched in first. A text has none.
    - `include`: folders that are searched, in order.
    - `macros`: macros that are defined by options.
    - `installed`: folders with headers that are not followed, if :func:`installed_headers` has a
      digest.
    - returns: path to the digest of its contents, or the folder of an installed header to its
      digest. A name that is not found, such as a header that NVRTC has itself, is there with
      ``None``.
    - raises `LookupError` if a macro with an unknown value is included.
    """
    return _Inclusion(include, macros, installed).follow(text, folder)


class _Inclusion:
    """Files found so far, and macros that have been seen."""

    def __init__(
        self,
        include: Sequence[str],
        macros: Iterable[tuple[str, str]],
        installed: Collection[str],
    ) -> None:
        self._include = include
        self._installed = installed
        self._found: dict[str, bytes | None] = {}
        self._defined = {
            name: value.strip()[1:-1] for name, value in macros if value.strip()[:1] in ('"', "<")
        }
        self._wanted: set[str] = set()
        self._angled: set[str] = set()
        self._pending: list[tuple[_Scanned, str | None]] = []

    def follow(self, text: str, folder: str | None) -> dict[str, bytes | None]:
        self._pending.append((_scan(text.encode()), folder))
        while self._pending or self._wanted:
            if self._pending:
                self._follow_one(*self._pending.pop())
                continue
            for macro in self._wanted:
                if macro not in self._defined:
                    raise LookupError(f"#include {macro}: the value of the macro is not seen")
                self._add(self._defined[macro], None)
            self._wanted.clear()
        return self._found

    def _follow_one(self, scanned: _Scanned, folder: str | None) -> None:
        self._defined.update(scanned.defined)
        self._wanted.update(scanned.macros)
        for name in scanned.quoted:
            self._add(name, folder)
        for name in scanned.angled:
            if name not in self._angled:
                self._angled.add(name)
                self._add(name, None)

    def _add(self, name: str, first: str | None) -> None:
        path = _resolve(name, first, self._include)
        if path is None:
            self._found[name] = None
            return
        for folder in self._installed:
            if path.startswith(f"{folder}/") and self._has_digest(folder):
                return
        if path not in self._found and (read := _read(path)) is not None:
            self._found[path] = read.digest
            self._pending.append((read, os.path.dirname(path)))

    def _has_digest(self, folder: str) -> bool:
        """Note the digest of a folder, if it has one."""
        if folder not in self._found:
            self._found[folder] = installed_headers(folder)
        return self._found[folder] is not None


def includes_anything(text: str) -> bool:
    """Return whether a source includes a file."""
    scanned = _scan(text.encode())
    return bool(scanned.quoted or scanned.angled or scanned.macros)


def includes_digest(
    text: str,
    folder: str | None,
    include: Sequence[str],
    toolkit: Sequence[str] = (),
    macros: Iterable[tuple[str, str]] = (),
) -> str:
    """Return one digest of all that :func:`included_files` finds, in the order of their names.

    `include` are the user's folders, and `toolkit` those that are searched after them. Headers of
    the toolkit are followed only if the user's folders have some of their names.
    """
    hidden = {name for each in include for name in os.listdir(each)}
    installed = [each for each in toolkit if hidden.isdisjoint(os.listdir(each))]
    digest = hashlib.sha256()
    found = included_files(text, folder, (*include, *toolkit), macros, installed)
    for path, contents in sorted(found.items()):
        digest.update(path.encode(errors="surrogateescape") + b"\0" + (contents or b"none") + b"\0")
    return digest.hexdigest()


def _resolve(name: str, first: str | None, include: Sequence[str]) -> str | None:
    for folder in include if first is None else (first, *include):
        path = f"{folder}/{name}"
        if os.path.isfile(path):
            return os.path.normpath(path) if ".." in name else path
    return None


def _read(path: str) -> _Scanned | None:
    try:
        status = os.stat(path)
        return _read_as_it_is(path, status.st_mtime_ns, status.st_size, status.st_ino)
    except OSError:  # NVRTC says so if the file matters
        return None


@lru_cache(maxsize=_MAX_SCANNED)
def _read_as_it_is(path: str, _changed_ns: int, _size: int, _inode: int) -> _Scanned:
    with open(path, "rb") as file:
        return _scan(file.read())


def _scan(data: bytes) -> _Scanned:
    joined = _CONTINUED.sub(b"", data) if b"\\" in data else data
    rows = _DIRECTIVE.findall(joined)
    return _Scanned(
        hashlib.sha256(data).digest(),
        tuple({os.fsdecode(row[0]) for row in rows if row[0]}),
        tuple({os.fsdecode(row[1]) for row in rows if row[1]}),
        tuple({row[2].decode() for row in rows if row[2]}),
        tuple((row[3].decode(), os.fsdecode(row[4] or row[5])) for row in rows if row[3]),
    )
