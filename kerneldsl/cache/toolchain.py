"""Versions of the software that generates code: part of every key, without importing Numba.

Packages that pip and conda installed are identified by their list of files (``RECORD``, "Recording
installed projects" of the Python packaging specifications). It has a SHA-256 of each file, also of
llvmlite's library with LLVM. kerneldsl itself may run from a checkout. Then its sources are read.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import time
from array import array
from collections.abc import Iterable, Iterator
from functools import cache
from operator import is_
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from kerneldsl._version import __version__
from kerneldsl.cache.overloads import foreign_overload
from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.utilities.modules import imported

__all__ = [
    "environment_identity",
    "file_identity",
    "own_identity",
    "package_identity",
    "status_of",
    "toolchain_identity",
]

#: Packages of this distribution that take part in compilation.
_OWN = ("kerneldsl", "targets")
#: Parts of these packages that matter if they run from sources: the targets, and all that they
#: import to compile. Modules above the targets decide what is compiled, and all of that is in the
#: key.
_PARTS = (
    *(f"kerneldsl/{part}" for part in ("analysis", "cache", "contract", "errors", "frontend")),
    *(f"kerneldsl/{part}" for part in ("ir", "language", "lowering", "planner")),
    *("kerneldsl/utilities", "targets"),
    *(f"kerneldsl/launch/native/{name}.py" for name in ("builder", "layout", "vectorcall")),
)
#: Numba's variables that have no part in the code.
_NO_PART = frozenset(
    {
        *("NUMBA_NUM_THREADS", "NUMBA_DEFAULT_NUM_THREADS", "THREADING_LAYER", "CACHE_DIR"),
        *("NUMBA_THREADING_LAYER", "NUMBA_CACHE_DIR"),
    }
)
#: A file in the current folder from which Numba takes settings too.
_NUMBA_FILE = ".numba_config.yaml"
_LOADED_NS = time.time_ns()
_WORD = (1 << 64) - 1
_READ = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def toolchain_identity(*, anew: bool = False) -> dict[str, str]:
    """Return what every target's code depends on, by name.

    `anew` looks at the sources of kerneldsl again. Raises `UncacheableError` if it cannot be
    determined what is installed, or the program has taught Numba something else.
    """
    overload = foreign_overload()
    if overload is not None:
        raise UncacheableError(f"numba has an implementation from outside: {overload}")
    version = ".".join(map(str, sys.version_info[:3]))
    return {
        "kerneldsl": _own_identity_now() if anew else own_identity(),
        "python": f"{sys.implementation.name} {version}",
        "numpy": np.__version__,
        "numba": package_identity("numba"),
        "llvmlite": package_identity("llvmlite"),
        "numba settings": environment_identity(),
    }


@cache
def package_identity(name: str) -> str:
    """Return the version of an installed package, and a digest of the list of its files.

    Raises `UncacheableError` if it is not installed, or nothing lists its files.
    """
    spec = importlib.util.find_spec(name)
    folders = spec.submodule_search_locations if spec is not None else None
    if not folders:
        raise UncacheableError(f"{name} is not installed")
    found = _recorded(Path(folders[0]).parent, name, (name,))
    if found is None:
        raise UncacheableError(f"nothing lists the files of {name}, so it cannot be identified")
    return found


def _recorded(folder: Path, distribution: str, packages: tuple[str, ...]) -> str | None:
    """Return what the list of an installation beside some packages says of them."""
    heads = tuple(f"{package}/".encode() for package in packages)
    versions: list[str] = []
    digest = hashlib.sha256()
    # There should be one list. If an older installation has left its own, both count.
    for name in sorted(os.listdir(folder)) if folder.is_dir() else ():
        if not (name.startswith(f"{distribution}-") and name.endswith(".dist-info")):
            continue
        try:
            record = (folder / name / "RECORD").read_bytes()
        except OSError:
            continue
        # Scripts and compiled files differ from machine to machine, and have no part in it.
        rows = sorted(
            row for row in record.splitlines() if row.startswith(heads) and b",sha256=" in row
        )
        if rows:
            version = name.removeprefix(f"{distribution}-").removesuffix(".dist-info")
            versions.append(version)
            digest.update(b"\n".join([version.encode(), *rows]))
    return f"{' and '.join(versions)} {digest.hexdigest()}" if versions else None


@cache
def own_identity() -> str:
    """Return the version of kerneldsl, and a digest of what it is made of.

    Raises `UncacheableError` if its sources were edited since this process began, which has loaded
    some of them.
    """
    root = _root()
    return _recorded(root, "kerneldsl", _OWN) or f"{__version__} {_digest_of_sources(root)}"


def _own_identity_now() -> str:
    """Return what `own_identity` would find now.

    A loaded module stays what it is. So sources are looked at if others were loaded since, or one
    was loaded again, and are read if they were changed.
    """
    known, seen, specs = own_identity(), _seen.get(_root()), _own_specs()
    if len(specs) == len(_looked_with) and all(map(is_, specs, _looked_with)):
        return known
    if seen is None or status_of(seen.paths) != seen.status:
        known = own_identity.__wrapped__()
    _looked_with[:] = specs
    return known


def _own_specs() -> list[Any]:
    """Return the specs of our modules that are loaded. Each load makes another one."""
    return [
        getattr(module, "__spec__", None)
        for name, module in tuple(sys.modules.items())
        if name.startswith(_OWN)
    ]


def _root() -> Path:
    return Path(__file__).parents[2]


class _Seen(NamedTuple):
    """Sources and their folders, and their status when they were read."""

    paths: tuple[str, ...]
    status: bytes


#: Sources, by the folder of the packages.
_seen: dict[Path, _Seen] = {}
#: Specs of the modules that were loaded when sources were last checked.
_looked_with: list[Any] = []


def _digest_of_sources(root: Path) -> str:
    digest, seen = hashlib.sha256(), dict[str, os.stat_result]()
    for part in _PARTS:
        for path in _sources(os.path.join(root, part), seen):
            name = path[len(str(root)) + 1 :].replace(os.sep, "/")
            # A file object for each of some hundreds would take longer than all the rest.
            descriptor = os.open(path, _READ)
            try:
                status = os.fstat(descriptor)
                contents = os.read(descriptor, status.st_size + 1)
            finally:
                os.close(descriptor)
            if status.st_mtime_ns > _LOADED_NS or len(contents) != status.st_size:
                raise UncacheableError(f"{name} was edited since this process began")
            digest.update(f"{name} {len(contents)}\n".encode())
            digest.update(contents)
            seen[path] = status
    _seen[root] = _Seen(tuple(seen), _digest_of_status(seen.values()))
    return digest.hexdigest()


def _sources(place: str, folders: dict[str, os.stat_result]) -> Iterator[str]:
    """Return the sources of a package, or the one source that it is, in a fixed order.

    `folders` gets the status of each folder before it is listed.
    """
    if not os.path.isdir(place):
        yield place
        return
    folders[place] = os.stat(place)
    with os.scandir(place) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.endswith(".py"):
            yield entry.path
        elif entry.name != "__pycache__" and entry.is_dir():
            yield from _sources(entry.path, folders)


def status_of(paths: Iterable[str], before_ns: int | None = None) -> bytes | None:
    """Return a digest of the status of files: i-node, size, and the times of two changes.

    The times are those of the contents and of the status. Programs cannot set the second one.
    The result is ``None`` if a file is gone, or was changed after `before_ns`.
    """
    found: list[os.stat_result] = []
    for path in paths:
        try:
            status = os.stat(path)
        except (OSError, ValueError):
            return None
        if before_ns is not None and max(status.st_mtime_ns, status.st_ctime_ns) > before_ns:
            return None
        found.append(status)
    return _digest_of_status(found)


def _digest_of_status(found: Iterable[os.stat_result]) -> bytes:
    """Return a digest of what :func:`os.stat` found of files, in their order."""
    rows = array("Q")
    for each in found:
        times = (each.st_mtime_ns & _WORD, each.st_ctime_ns & _WORD)  # some are before 1970
        rows.extend((each.st_ino, each.st_size, *times))
    return hashlib.sha256(rows).digest()


def environment_identity() -> str:
    """Return Numba's settings: its variables, and its file in the current folder.

    Raises `UncacheableError` if Numba has been imported and its settings are others: a program has
    set them.
    """
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name not in _NO_PART
    ]
    if os.path.exists(_NUMBA_FILE):
        settings.append(f"{_NUMBA_FILE} {file_identity(Path(_NUMBA_FILE))}")
    said = " ".join(settings)
    config = getattr(imported("numba"), "config", None)
    if config is not None:
        usual = _usual_settings(said, str(config.__file__))
        changed = [n for n, v in _settings(config).items() if usual.get(n, v) != v]
        if changed:
            raise UncacheableError(f"numba.config was changed: {', '.join(changed)}")
    return said


@cache
def _usual_settings(said: str, file: str) -> dict[str, object]:
    """Return the settings that Numba reads from the environment as it is now."""
    spec = importlib.util.spec_from_file_location("kerneldsl_numba_settings", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return _settings(module)


def _settings(config: ModuleType) -> dict[str, object]:
    return {
        name: value
        for name, value in vars(config).items()
        if name.isupper()
        and name not in _NO_PART
        and not name.startswith("CUDA_")  # of numba-cuda, which takes no part in compiling
        and isinstance(value, (bool, int, str, float))
    }


def file_identity(path: Path) -> str:
    """Return the digest of a file.

    Raises `UncacheableError` if it cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UncacheableError(f"{path} cannot be read: {error}") from error
