"""Writes the folder of a package's shipped kernels; equal code gives equal bytes."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
import types
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any
from weakref import WeakKeyDictionary

from kerneldsl._version import __version__
from kerneldsl.analysis.traits import KernelTraits
from kerneldsl.analysis.work import KernelWork
from kerneldsl.cache.folders import nearest_existing
from kerneldsl.contract import Artifact, Compiler, Dim3, Specialization
from kerneldsl.errors import ArgumentValueError
from kerneldsl.frontend.captured import AttributeReader, CellReader, GlobalReader
from kerneldsl.frontend.fingerprint import UnidentifiedError, fingerprint
from kerneldsl.frontend.function_text import imported_names
from kerneldsl.frontend.linked_code import code_of
from kerneldsl.frontend.normalize import make_unit
from kerneldsl.frontend.resolve import device_function, is_kernel
from kerneldsl.frontend.unit import Captured, FunctionUnit
from kerneldsl.language.kinds import Kind, format_signature
from kerneldsl.shipping.forms import FUNCTION, form_key, read_form
from kerneldsl.shipping.key import describe_launch, shipped_keys, work_digest
from kerneldsl.shipping.manifest import MANIFEST, Entry, File, Manifest
from kerneldsl.shipping.meanings import (
    NoFormError,
    describe_defaults,
    describe_text,
    describe_value,
    number_of_code,
    root_reader,
)

__all__ = ["PackageWriter", "make_form", "require_writable"]

#: Endings of the files of sections.
_SUFFIXES = {"object": "o", "handlers": "o", "pool": "o", "ptx": "ptx", "cubin": "cubin"}
#: Sections that are the same for all kernels of an architecture. Their files have these names.
_OF_PROCESS = frozenset({"handlers", "pool"})
_DIGITS = 16
_NO_NOTES: Mapping[str, Any] = MappingProxyType({})


class PackageWriter:
    """Collects compiled kernels, and writes their files with a manifest.

    Parameters
    ----------
    package : str
        Name of the package that ships them.

    Examples
    --------
    ::

        writer = PackageWriter("mypkg")
        for arch in ("x86-64-v3", "sm_90"):
            writer.add(compiler, compiler.compile(replace(specialization, arch=arch)))
        writer.write(Path("mypkg/_kernels"))
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._files: dict[str, bytes] = {}
        self._entries: dict[str, Entry] = {}
        self._sources: dict[str, str] = {}
        self._works: dict[str, Any] = {}
        self._forms: defaultdict[str, list[Any]] = defaultdict(list)

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The compiled kernels that were added so far."""
        return tuple(self._entries.values())

    @property
    def nbytes(self) -> int:
        """Bytes of all files but the manifest."""
        return sum(map(len, self._files.values()))

    def add(
        self, compiler: Compiler, artifact: Artifact, notes: Mapping[str, Any] = _NO_NOTES
    ) -> Entry | None:
        """Add a compiled kernel; ``None`` where the code works in this process alone.

        Parameters
        ----------
        compiler : Compiler
            What compiled it.
        artifact : Artifact
            The code, for an architecture of `Compiler.shipped_architectures`.
        notes : mapping, optional
            What the warnings of the kernel depend on (:func:`kerneldsl.launch.artifact.notes_on`).

        Raises
        ------
        UncacheableError
            If such code is not shipped, with the reason.
        """
        specialization = artifact.specialization
        arch = artifact.arch or specialization.arch
        if arch is None:
            return None
        key = shipped_keys(specialization, compiler.code_family, (arch,))[arch]
        sections = compiler.ship(artifact)
        if sections is None:
            return None
        unit = specialization.unit
        files = {
            section: self._add_file(section if section in _OF_PROCESS else unit.name, section, data)
            for section, data in sections.items()
            if section != "metadata"
        }
        entry = Entry(
            key.digest,
            f"{unit.module}.{unit.qualname}",
            format_signature(specialization.kinds),
            describe_launch(specialization),
            arch,
            json.loads(sections["metadata"]) | dict(notes),
            files,
        )
        self._entries[key.digest] = entry
        self._describe(specialization)
        return entry

    def add_work(
        self,
        unit: FunctionUnit,
        kinds: tuple[Kind, ...],
        block_dim: Dim3 | None,
        work: KernelWork,
    ) -> None:
        """Add what a kernel does for one index, so that plans of its launches need not count it.

        Raises `UncacheableError` if it is not known what the kernel depends on.
        """
        self._works[work_digest(unit, kinds, block_dim)] = work.to_json()

    def add_source(self, module: str, text: str) -> None:
        """Add the text of a module's kernels, for installations without source files."""
        self._sources[module] = self._add_file(module, "py.txt", text.encode())

    def merge(self, other: PackageWriter) -> None:
        """Add what another writer has of the same package. Of equal kernels, the first is kept."""
        for key, entry in other._entries.items():
            self._entries.setdefault(key, entry)
        self._files.update(other._files)
        self._sources.update(other._sources)
        self._works.update(other._works)
        for key, forms in other._forms.items():
            for form in forms:
                self._add_form(key, form)

    def _describe(self, specialization: Specialization) -> None:
        """Note what describes a kernel, so that launches need not read it again."""
        found = make_form(specialization.unit, specialization.traits)
        if found is not None:
            self._add_form(*found)

    def _add_form(self, key: str, form: Any) -> None:
        if form not in self._forms[key]:
            self._forms[key].append(form)

    def _add_file(self, stem: str, kind: str, data: bytes) -> str:
        """Add a file that is named by its contents; equal ones are stored once."""
        digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
        stem = re.sub(r"[^A-Za-z0-9_.]", "_", stem).strip(".")
        name = f"{stem}-{digest}.{_SUFFIXES.get(kind, kind)}"
        self._files[name] = data
        return name

    def manifest(self) -> Manifest:
        """Return the list of what was added."""
        files = {
            name: File(hashlib.sha256(data).hexdigest(), len(data))
            for name, data in self._files.items()
        }
        return Manifest(
            self.package,
            __version__,
            files,
            self.entries,
            self._sources,
            self._works,
            {key: sorted(forms, key=json.dumps) for key, forms in self._forms.items()},
        )

    def contents(self) -> Mapping[str, bytes]:
        """Return the files by their names, the manifest among them."""
        return {**dict(sorted(self._files.items())), MANIFEST: self.manifest().encode()}

    def write(self, folder: Path) -> None:
        """Write the folder; files of an earlier build that are not part of this one are removed.

        Raises `OSError` as the system does.
        """
        contents = self.contents()
        folder.mkdir(parents=True, exist_ok=True)
        for name in _files_of(folder) - set(contents):
            (folder / name).unlink(missing_ok=True)
        for name, data in contents.items():
            (folder / name).write_bytes(data)


def require_writable(folder: Path) -> None:
    """Refuse a folder that files cannot be written into, before anything is compiled for it.

    Raises `ArgumentValueError`.
    """
    at = nearest_existing(folder.absolute())
    try:
        with tempfile.TemporaryFile(dir=at):
            pass
    except OSError as error:
        raise ArgumentValueError(
            f"the folder {folder} cannot be written: {error.strerror or error}",
            value=str(folder),
            limit="The compiled kernels are written there",
            remedy="Name another one: -o FOLDER",
        ) from error


def _files_of(folder: Path) -> set[str]:
    """Return the files that the manifest in a folder lists; of another program's none."""
    try:
        return set(Manifest.decode((folder / MANIFEST).read_bytes()).files)
    except (OSError, ValueError):
        return set()


# Writes the description of a kernel for its package, when it is built.

_made: WeakKeyDictionary[FunctionUnit, tuple[str, list[Any]] | None] = WeakKeyDictionary()


def make_form(unit: FunctionUnit, traits: KernelTraits) -> tuple[str, list[Any]] | None:
    """Return the key and the form of a kernel; ``None`` if it may depend on anything else.

    - `unit`: the normal form; one that is rewritten for arguments has no form.
    - `traits`: results of the analysis.
    """
    if unit not in _made:
        _made[unit] = _make_form(unit, traits)
    return _made[unit]


def _make_form(unit: FunctionUnit, traits: KernelTraits) -> tuple[str, list[Any]] | None:
    function = unit.function
    if not isinstance(function, types.FunctionType) or not unit.reads:
        return None
    code = function.__code__
    given = code.co_varnames[code.co_argcount :][: code.co_kwonlyargcount]
    reads = unit.reads[function]
    constants = {name: reads[name] for name in given if name in reads}
    try:
        written = _Writing(unit, constants)
        form = [
            written.functions(),
            written.captured(),
            fingerprint(unit),
            list(unit.parameters),
            unit.first_line - code.co_firstlineno,
            written.traits(traits),
        ]
        # A launch must read the same traits and constants from the form.
        read, its_traits = read_form(form, function, constants)
        if its_traits != traits or not _are_same(read.captured, unit.captured):
            return None
        if fingerprint(make_unit(function, constants=constants, reads=unit.reads.get)) != form[2]:
            return None
        return form_key(function, constants), form
    except (NoFormError, UnidentifiedError, ValueError):
        return None


def _are_same(some: tuple[Captured, ...], others: tuple[Captured, ...]) -> bool:
    return len(some) == len(others) and all(
        one.name == other.name and one.path == other.path and one.value is other.value
        for one, other in zip(some, others, strict=True)
    )


class _Writing:
    """Writes the parts of a form."""

    def __init__(self, unit: FunctionUnit, constants: Mapping[str, Any]) -> None:
        self._unit = unit
        self._cells = {name: types.CellType(value) for name, value in constants.items()}
        #: The functions, each with its number.
        self._numbers: dict[Any, int] = {unit.function: 0}

    def functions(self) -> list[Any]:
        """Return what was read of each function; those that are called get their numbers."""
        rows = list[Any]()
        while len(rows) < len(self._numbers):
            function = list(self._numbers)[len(rows)]
            # A function is not read if only a branch names it that the constants leave out.
            reads, imported = self._unit.reads.get(function, {}), imported_names(function)
            rows.append(
                [
                    [*describe_text(function), number_of_code(function, imported)],
                    imported,
                    describe_defaults(function, is_kernel=not rows),
                    {path: self._meaning(path, reads[path]) for path in sorted(reads)},
                ]
            )
        if not self._unit.reads.keys() <= self._numbers.keys():
            raise NoFormError
        return rows

    def _meaning(self, path: str, value: Any) -> str:
        function = None if is_kernel(value) else device_function(value)
        if function is None:
            return describe_value(path, value)
        if code_of(value) is not None:
            raise NoFormError
        return f"{FUNCTION}{self._numbers.setdefault(function, len(self._numbers))}"

    def captured(self) -> list[Any]:
        """Return where each captured value is read."""
        return [[self._reader_of(each), each.path, each.name] for each in self._unit.captured]

    def _reader_of(self, captured: Captured) -> int:
        """Return the number of a function that reads the same value by the same names."""
        root: Any = captured.source
        while isinstance(root, AttributeReader):
            root = root.owner
        closures = {id(cell) for each in self._numbers for cell in each.__closure__ or ()}
        for function, number in self._numbers.items():
            if captured.path not in self._unit.reads[function]:
                continue
            mine = root_reader(function, self._cells if number == 0 else {}, captured.path)
            if isinstance(root, GlobalReader) and isinstance(mine, GlobalReader):
                if mine.namespace is root.namespace:
                    return number
            elif isinstance(root, CellReader) and isinstance(mine, CellReader):
                # A compile-time parameter is in a cell of the front end's own.
                is_given = number == 0 and root.name in self._cells
                if mine.cell is root.cell or (is_given and id(root.cell) not in closures):
                    return number
        raise NoFormError

    def traits(self, traits: KernelTraits) -> dict[str, Any]:
        """Return what was found, with places relative to the functions."""
        found = {field.name: getattr(traits, field.name) for field in fields(traits)}
        functions = {(each.__code__.co_filename, each.__qualname__): each for each in self._numbers}
        augmented = []
        for position, index_count, where, tuples in traits.augmented:
            function = functions.get((where.filename, where.function or ""))
            if function is None:
                raise NoFormError
            line = where.lineno - function.__code__.co_firstlineno
            place = [self._numbers[function], line, where.col_offset, where.end_col_offset]
            augmented.append([position, index_count, place, list(map(sorted, tuples))])
        found["augmented"] = augmented
        return {
            name: sorted(each) if isinstance(each, frozenset) else each
            for name, each in found.items()
        }
