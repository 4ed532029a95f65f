"""The manifest of a package's shipped kernels: a JSON file that lists its code.

::

    {
      "format": 1,
      "package": "mypkg",
      "kerneldsl": "0.9.0",
      "files": {"axpy-0c1d2e3f4a5b6c7d.o": {"sha256": "…", "bytes": 2720}, …},
      "sources": {"mypkg.kernels": "mypkg.kernels-….py"},
      "analyses": {"uniform": ["…", …], "unchanged": ["…", …]},
      "entries": [
        {
          "key": "…",
          "kernel": "mypkg.kernels.axpy",
          "signature": "float32, float32[::1], float32[::1]",
          "launch": "forall of rank 1",
          "arch": "x86-64-v3",
          "metadata": {"entry_name": "kd_axpy_…", …},
          "files": {"object": "axpy-0c1d2e3f4a5b6c7d.o", "handlers": …, "pool": …}
        }, …
      ]
    }

``key`` is the SHA-256 of :func:`kerneldsl.shipping.key.shipped_keys`. ``analyses`` has a
:func:`~kerneldsl.shipping.key.unit_digest` of each kernel in which all threads reach the barriers
(``uniform``). ``unchanged`` has those of kernels and kinds of arguments without a rewrite. Names of
files consist of letters, digits, ``.``, ``_`` and ``-``, and are in the folder of the manifest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.untrusted import parse_json

__all__ = ["MANIFEST", "Entry", "File", "Index", "Manifest", "ManifestError", "describe_entries"]

#: Name of the file.
MANIFEST = "manifest.json"
_FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ManifestError(ValueError):
    """The file is not a manifest of this format; the message says why."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the folder.

    Parameters
    ----------
    sha256 : str
        Digest of its contents, in hexadecimal.
    nbytes : int
        Its size.
    """

    sha256: str
    nbytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One compiled kernel.

    Parameters
    ----------
    key : str
        Digest of what it is found by.
    kernel : str
        Module and qualified name.
    signature : str
        Types of its arguments.
    launch : str
        How it is launched, for a person.
    arch : str
        Architecture of the code, such as ``"sm_90"`` or ``"x86-64-v3"``.
    metadata : mapping
        What the target needs to use the code, as JSON has it.
    files : mapping of str to str
        Name of each section to the name of its file.
    """

    key: str
    kernel: str
    signature: str
    launch: str
    arch: str
    metadata: Mapping[str, Any]
    files: Mapping[str, str]

    def describe(self) -> str:
        """Say in a line which kernel it is, for what."""
        return f"{self._describe_kernel()}, for {self.arch}"

    def _describe_kernel(self) -> str:
        return f"{self.kernel}({self.signature}), {self.launch}"


def describe_entries(entries: Iterable[Entry]) -> list[str]:
    """Return a line for each kernel, signature and launch, with all its architectures.

    Examples
    --------
    >>> v2, v3 = (Entry("", "f", "int64", "[grid, block]", arch, {}, {}) for arch in ("v2", "v3"))
    >>> describe_entries([v2, v3])
    ['f(int64), [grid, block], for v2, v3']
    """
    found: dict[str, dict[str, None]] = {}
    for entry in entries:
        found.setdefault(entry._describe_kernel(), {})[entry.arch] = None
    return [f"{kernel}, for {', '.join(archs)}" for kernel, archs in found.items()]


@dataclass(frozen=True)
class Manifest:
    """List of what a package ships.

    Parameters
    ----------
    package : str
        Name of the package.
    kerneldsl : str
        Version of kerneldsl that compiled it.
    files : mapping of str to File
        The files, by their names.
    entries : tuple of Entry
        The compiled kernels.
    sources : mapping of str to str
        Name of a module to the name of a file with the text of its kernels.
    analyses : mapping of str to frozenset of str
        What was found (:mod:`kerneldsl.shipping.analyses`), to the digests of the kernels.
    """

    package: str
    kerneldsl: str
    files: Mapping[str, File]
    entries: tuple[Entry, ...]
    sources: Mapping[str, str] = field(default_factory=dict)
    analyses: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the manifest as JSON, the same bytes for equal contents."""
        document = {
            "format": _FORMAT,
            "package": self.package,
            "kerneldsl": self.kerneldsl,
            "files": {
                name: {"sha256": each.sha256, "bytes": each.nbytes}
                for name, each in sorted(self.files.items())
            },
            "sources": dict(sorted(self.sources.items())),
            "analyses": {name: sorted(each) for name, each in sorted(self.analyses.items())},
            "entries": [
                {
                    "key": each.key,
                    "kernel": each.kernel,
                    "signature": each.signature,
                    "launch": each.launch,
                    "arch": each.arch,
                    "metadata": dict(each.metadata),
                    "files": dict(sorted(each.files.items())),
                }
                for each in sorted(self.entries, key=lambda each: (each.describe(), each.key))
            ],
        }
        # A first launch parses it: spaces would be a third of the bytes, and of the time.
        return json.dumps(document, separators=(",", ":"), ensure_ascii=True).encode() + b"\n"

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a manifest.

        Raises `ManifestError` for another format, and for an entry with a file that is not listed.
        """
        try:
            document = _parse(data)
            files = {_name(name): _read_file(each) for name, each in document["files"].items()}
            sources = {str(module): name for module, name in document["sources"].items()}
            entries = tuple(map(_read_entry, document["entries"]))
            found = cls(
                str(document["package"]),
                str(document["kerneldsl"]),
                files,
                entries,
                sources,
                {
                    str(name): frozenset(map(_digest, each))
                    for name, each in document.get("analyses", {}).items()
                },
            )
            used = {name for each in entries for name in each.files.values()}
        except ManifestError:
            raise
        except _UNREADABLE as error:
            raise ManifestError(f"it cannot be read: {error!r}") from error
        for name in (*used, *sources.values()):
            if name not in files:
                raise ManifestError(f"it does not list the file {name!r}")
        return found


class Index:
    """Entries of a manifest by their keys; an entry is read when it is used.

    A launch uses a few of thousands.

    Parameters
    ----------
    data : bytes
        The manifest.

    Raises
    ------
    ManifestError
        For another format, also of an entry or file when it is used.
    """

    def __init__(self, data: bytes) -> None:
        try:
            document = _parse(data)
            self._rows = {row["key"]: row for row in document["entries"]}
            self._files = dict(document["files"])
            self._sources = dict(document["sources"])
            #: Version of kerneldsl that compiled it.
            self.kerneldsl = document["kerneldsl"]
            #: What was found, to the digests of the kernels.
            self.analyses = {
                name: frozenset(each) for name, each in document.get("analyses", {}).items()
            }
            #: Modules and qualified names of the kernels.
            self.kernels = frozenset(row["kernel"] for row in document["entries"])
        except ManifestError:
            raise
        except _UNREADABLE as error:
            raise ManifestError(f"it cannot be read: {error!r}") from error

    def find(self, key: str) -> Entry | None:
        """Return the entry of a key's digest."""
        row = self._rows.get(key)
        try:
            return None if row is None else _read_entry(row)
        except _UNREADABLE as error:
            raise ManifestError(f"an entry cannot be read: {error!r}") from error

    def file(self, name: str) -> File:
        """Return what is listed of a file."""
        try:
            return _read_file(self._files[_name(name)])
        except _UNREADABLE as error:
            raise ManifestError(f"it does not list the file {name!r}") from error

    def source(self, module: str) -> str | None:
        """Return the name of the file with the text of a module's kernels."""
        return self._sources.get(module)


#: What the values of another document raise.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)


def _parse(data: bytes) -> Any:
    document = parse_json(data)
    if document["format"] != _FORMAT:
        raise ManifestError(f"its format is {document['format']!r}, and not {_FORMAT}")
    return document


def _read_file(row: Any) -> File:
    return File(_digest(row["sha256"]), int(row["bytes"]))


def _read_entry(row: Any) -> Entry:
    if not isinstance(row["metadata"], dict):
        raise ManifestError("the metadata of an entry is not an object")
    return Entry(
        key=_digest(row["key"]),
        **{name: str(row[name]) for name in ("kernel", "signature", "launch", "arch")},
        metadata=row["metadata"],
        files={str(section): str(name) for section, name in row["files"].items()},
    )


def _name(text: Any) -> str:
    """Return a name that is in the folder, and cannot be another place."""
    if not isinstance(text, str) or not _NAME.fullmatch(text):
        raise ManifestError(f"{text!r} is not the name of a file in its folder")
    return text


def _digest(text: Any) -> str:
    if not isinstance(text, str) or not _DIGEST.fullmatch(text):
        raise ManifestError(f"{text!r} is not a SHA-256")
    return text
