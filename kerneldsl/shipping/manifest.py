"""The manifest of a package's shipped kernels: a JSON file that lists its code.

::

    {
      "format": 5,
      "sha256": "…",
      "package": "mypkg",
      "kerneldsl": "0.9.0",
      "sources": {"mypkg.kernels": "mypkg.kernels-….py"},
      "kernels": ["mypkg.kernels.axpy", …],
      "lengths": [1234, 5678, 910, 1112],
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
      ],
      "forms": {"…": [[…], …], …},
      "works": {"…": [{"mul": 1, "add": 1}, …], …},
      "files": {"axpy-0c1d2e3f4a5b6c7d.o": {"sha256": "…", "bytes": 2720}, …}
    }

The first line has the format and the digest of the following lines. Each entry, form, work and file
is a line, in the order of keys and names. So a launch searches the few lines that it uses, of
thousands, and parses nothing else.

``key`` is the SHA-256 of :func:`kerneldsl.shipping.key.shipped_keys`. ``forms`` has what describes
kernels (:mod:`kerneldsl.shipping.forms`), by :func:`~kerneldsl.shipping.forms.form_key`. ``works``
has what kernels do for one index (:class:`kerneldsl.analysis.work.KernelWork`), by
:func:`~kerneldsl.shipping.key.work_digest`. ``lengths`` are the bytes of the lines of entries,
forms, works and files. Names of files consist of letters, digits, ``.``, ``_`` and ``-``, and are
in the folder of the manifest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.untrusted import parse_json

__all__ = [
    "MANIFEST",
    "Entry",
    "File",
    "Index",
    "Manifest",
    "ManifestError",
    "describe_entries",
    "encode_document",
]

#: Name of the file.
MANIFEST = "manifest.json"
_FORMAT = 5
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


class ManifestError(ValueError):
    """The file is not a manifest of this format; the message says why."""


@dataclass(frozen=True, slots=True)
class File:
    """A file of the folder."""

    #: Digest of its contents, in hexadecimal.
    sha256: str
    #: Size of the file in bytes.
    nbytes: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One compiled kernel."""

    #: Digest of the entry's key.
    key: str
    #: Module and qualified name.
    kernel: str
    #: Types of its arguments.
    signature: str
    #: Description of the launch for a person.
    launch: str
    #: Architecture of the code, such as ``"sm_90"`` or ``"x86-64-v3"``.
    arch: str
    #: Data that the target needs to use the code, as JSON has it.
    metadata: Mapping[str, Any]
    #: Name of each section to the name of its file.
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
    """List of what a package ships."""

    #: Name of the package.
    package: str
    #: Version of kerneldsl that compiled it.
    kerneldsl: str
    #: The files, by their names.
    files: Mapping[str, File]
    #: The compiled kernels.
    entries: tuple[Entry, ...]
    #: Name of a module to the name of a file with the text of its kernels.
    sources: Mapping[str, str] = field(default_factory=dict)
    #: Digest of a kernel, its arguments and block, to its work as JSON has it.
    works: Mapping[str, Any] = field(default_factory=dict)
    #: Digest of a kernel's text and constants to its forms as JSON has them.
    forms: Mapping[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the manifest as JSON, the same bytes for equal contents."""
        return encode_document(
            {
                "format": _FORMAT,
                "package": self.package,
                "kerneldsl": self.kerneldsl,
                "sources": dict(sorted(self.sources.items())),
                "kernels": sorted({each.kernel for each in self.entries}),
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
                    for each in sorted(self.entries, key=lambda each: each.key)
                ],
                "forms": dict(sorted(self.forms.items())),
                "works": dict(sorted(self.works.items())),
                "files": {
                    name: {"sha256": each.sha256, "bytes": each.nbytes}
                    for name, each in sorted(self.files.items())
                },
            }
        )

    @classmethod
    def decode(cls, data: bytes) -> Manifest:
        """Read a manifest.

        Raises `ManifestError` for another format, and for an entry with a file that is not listed.
        """
        try:
            document = parse_json(_checked(data))
            files = {_name(name): _read_file(each) for name, each in document["files"].items()}
            sources = {str(module): name for module, name in document["sources"].items()}
            read = map(_read_entry, document["entries"])
            entries = tuple(sorted(read, key=lambda each: (each.describe(), each.key)))
            found = cls(
                str(document["package"]),
                str(document["kerneldsl"]),
                files,
                entries,
                sources,
                *(
                    {_digest(key): each for key, each in document[part].items()}
                    for part in ("works", "forms")
                ),
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
        self._data = _checked(data)
        try:
            first, start = _line(data, data.index(b"\n") + 1)
            document = parse_json(b"{" + first.removesuffix(_OPENING) + b"}")
            #: Begin and end of the lines of each part.
            self._parts: dict[str, tuple[int, int]] = {}
            for part, length in zip(("entries", *_MARKS), document["lengths"], strict=True):
                start += len(_MARKS.get(part, b""))
                self._parts[part] = start, start + length + 1
                start += length or (-1 if part == "entries" else 0)
            if data[start:] != _END:
                raise ManifestError("it is not as long as it says")
            self._sources = dict(document["sources"])
            #: Version of kerneldsl that compiled it.
            self.kerneldsl = document["kerneldsl"]
            #: Modules and qualified names of the kernels.
            self.kernels = frozenset(document["kernels"])
        except _UNREADABLE as error:
            raise ManifestError(f"it cannot be read: {error!r}") from error

    def find(self, key: str) -> Entry | None:
        """Return the entry of a key's digest."""
        row = self._row("entries", f'{{"key":"{key}",')
        try:
            return None if row is None else _read_entry(parse_json(row))
        except _UNREADABLE as error:
            raise ManifestError(f"an entry cannot be read: {error!r}") from error

    def value(self, part: str, key: str) -> Any:
        """Return what ``"forms"`` or ``"works"`` has of a digest, as JSON has it."""
        row = self._row(part, f'"{_digest(key)}":')
        try:
            return None if row is None else parse_json(b"{" + row + b"}")[key]
        except _UNREADABLE as error:
            raise ManifestError(f"one of the {part} cannot be read: {error!r}") from error

    def _row(self, part: str, prefix: str) -> bytes | None:
        return _search(self._data, *self._parts[part], prefix.encode())

    def file(self, name: str) -> File:
        """Return what is listed of a file."""
        row = self._row("files", f'"{_name(name)}":')
        try:
            if row is not None:
                return _read_file(parse_json(b"{" + row + b"}")[name])
        except _UNREADABLE as error:
            raise ManifestError(f"the file {name!r} is not listed well: {error!r}") from error
        raise ManifestError(f"it does not list the file {name!r}")

    def source(self, module: str) -> str | None:
        """Return the name of the file with the text of a module's kernels."""
        return self._sources.get(module)


#: Exceptions that the values of another document raise.
_UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
#: The end of the line before the entries.
_OPENING = b',"entries":['
_END = b"\n}}\n"
#: Start of each of the following parts.
_MARKS = {"forms": b'\n],"forms":{\n'} | {
    part: b'\n},"%s":{\n' % part.encode() for part in ("works", "files")
}


def encode_document(document: Mapping[str, Any]) -> bytes:
    """Return the JSON of a manifest, line by line."""
    derived = ("format", "sha256", "lengths", "entries", *_MARKS)
    head = {name: each for name, each in document.items() if name not in derived}
    entries = ",\n".join(map(_dump, document["entries"])).encode()
    parts = [
        ",\n".join(_dump({n: each})[1:-1] for n, each in document[part].items()).encode()
        for part in _MARKS
    ]
    head["lengths"] = [len(each) for each in (entries, *parts)]
    marked = (mark + part for mark, part in zip(_MARKS.values(), parts, strict=True))
    rest = b"".join(
        (
            _dump(head)[1:-1].encode() + _OPENING,
            b"\n" + entries if entries else b"",
            *marked,
            _END,
        )
    )
    digest = hashlib.sha256(rest).hexdigest()
    return f'{{"format":{_dump(document["format"])},"sha256":"{digest}",\n'.encode() + rest


def _dump(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def _checked(data: bytes) -> bytes:
    """Return the manifest if its format is known, and it is not damaged."""
    try:
        first = data[: data.find(b"\n") + 1].removesuffix(b"\n") or data
        # In another format, this line may be all.
        head = parse_json(first[:-1] + b"}" if first.endswith(b",") else first)
        if head["format"] != _FORMAT:
            raise ManifestError(f"its format is {head['format']!r}, and not {_FORMAT}")
        expected = _digest(head["sha256"])
    except ManifestError:
        raise
    except _UNREADABLE as error:
        raise ManifestError(f"it cannot be read: {error}") from error
    if hashlib.sha256(memoryview(data)[len(first) + 1 :]).hexdigest() != expected:
        raise ManifestError("it is damaged: its SHA-256 differs")
    return data


def _line(data: bytes, start: int) -> tuple[bytes, int]:
    """Return a line without its end, and where the next one begins."""
    end = data.index(b"\n", start)
    return data[start:end], end + 1


def _search(data: bytes, low: int, high: int, prefix: bytes) -> bytes | None:
    """Return the line with a prefix, of the sorted lines between two places, without a comma."""
    while low < high:
        start = data.rfind(b"\n", low, (low + high) // 2) + 1 or low
        line, following = _line(data, start)
        if line.startswith(prefix):
            return line.removesuffix(b",")
        if line < prefix:
            low = following
        else:
            high = start
    return None


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
