"""The packages of this process that ship compiled kernels.

A package's files are read through its loader. So it may be installed in a read-only folder, by
another user, or in a zip archive. The files are trusted as the package's own code is. Each file's
digest is checked before it is used, and nothing in them is unpickled.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kerneldsl._version import __version__
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError, CacheWarning, NotShippedError
from kerneldsl.errors.kernels import wrong_value
from kerneldsl.errors.values import a_type
from kerneldsl.frontend.function_text import packages_of, register_texts
from kerneldsl.shipping.manifest import (
    MANIFEST,
    Entry,
    Index,
    Manifest,
    ManifestError,
    describe_entries,
)
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.flags import read_flag
from kerneldsl.utilities.formatting import format_count
from kerneldsl.utilities.tracebacks import warn_user

__all__ = ["DamagedFileError", "ShippedKernels", "load_package", "shipped_kernels_of"]

_packages: dict[str, ShippedKernels] = {}
#: Entries that an error lists.
_MOST_SHOWN = 12


class DamagedFileError(Exception):
    """A shipped file cannot be read, or is not what the manifest says; the message says which."""


def load_package(package: str, folder: str = "_kernels", *, strict: bool = False) -> ShippedKernels:
    """Use the compiled kernels that a package ships, as ``kerneldsl build`` writes them.

    Call it in the package's ``__init__.py``. Launches of the package's kernels then load their code
    without compiling it. A kernel that is not shipped for the arguments or the machine is compiled.

    Parameters
    ----------
    package : str
        Name of the package: ``__name__``.
    folder : str, optional
        The folder of the kernels, in the package's.
    strict : bool, optional
        Whether a launch of a kernel that is not shipped raises `NotShippedError`.

    Returns
    -------
    ShippedKernels
        What is shipped.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `package` is not the name of an importable module, or `folder` is not a name.

    Examples
    --------
    ::

        # mypkg/__init__.py
        import kerneldsl as kd

        kd.load_package(__name__)
    """
    for name, value in (("package", package), ("folder", folder)):
        if not isinstance(value, str):
            raise ArgumentTypeError(
                f"{name} is {a_type(value)}", value=value, limit="It must be a str"
            )
    strict = read_flag("strict", strict)
    parts = folder.split("/")
    has_others = "\\" in folder or "\0" in folder
    if has_others or any(part in ("", ".", "..") for part in parts):
        raise wrong_value(
            "folder", folder, "It names a folder in the package's", "Write folder='_kernels'"
        )
    module = _module_of(package)
    spec = module.__spec__
    covered = package if hasattr(module, "__path__") else (getattr(spec, "parent", "") or package)
    found = ShippedKernels(covered, folder, _reader(module, parts), strict=strict)
    _packages[covered] = found
    register_texts(covered, found.source_of)
    return found


def _module_of(name: str) -> ModuleType:
    known = sys.modules.get(name)
    if name == "__main__" and getattr(known, "__spec__", None) is None:
        raise ArgumentValueError(
            "package is '__main__', a script",
            value=name,
            limit="Kernels are shipped in a package",
            remedy="Call load_package(__name__) in the package's __init__.py",
        )
    if known is not None:
        return known
    try:
        if not name or name.startswith("."):  # Python has other errors for these
            raise ModuleNotFoundError("The name begins with no module")
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ArgumentValueError(
            f"there is no package {name!r}: {error}",
            value=name,
            remedy="Call load_package(__name__) in the package's __init__.py",
        ) from error


def _reader(module: ModuleType, parts: list[str]) -> Callable[[str], bytes]:
    """Return what reads a file of the folder; it raises `OSError`."""
    get_data = getattr(getattr(module, "__spec__", None), "loader", None)
    get_data = getattr(get_data, "get_data", None)
    file = getattr(module, "__file__", None)
    if get_data is not None and file:
        root = os.path.join(os.path.dirname(file), *parts)
        return lambda name: bytes(get_data(os.path.join(root, name)))

    def read(name: str) -> bytes:
        from importlib.resources import files  # few loaders need it

        try:
            return files(module.__name__).joinpath(*parts, name).read_bytes()
        except (TypeError, ValueError, AttributeError) as error:  # a module of no package, or file
            raise FileNotFoundError(f"{module.__name__} has no folder") from error

    return read


class ShippedKernels:
    """The compiled kernels that a package ships.

    Attributes
    ----------
    package : str
        Name of the package.
    folder : str
        Their folder in it.
    strict : bool
        Whether a kernel that is not shipped is an error.
    """

    def __init__(
        self, package: str, folder: str, read: Callable[[str], bytes], *, strict: bool
    ) -> None:
        self.package = package
        self.folder = folder
        self.strict = strict
        self._read = read
        self._reported: set[str] = set()

    def __repr__(self) -> str:
        count = format_count(len(self.manifest.entries), "kernel")
        return f"<ShippedKernels of {self.package}: {count}>"

    @property
    def problem(self) -> str:
        """Reason that the manifest cannot be used; empty if it can."""
        return self._found[1]

    @cached_property
    def manifest(self) -> Manifest:
        """The list of what is shipped, which is empty if it cannot be read."""
        nothing = Manifest(self.package, "", {}, ())
        if self.problem:
            return nothing
        try:
            return Manifest.decode(self._read(MANIFEST))
        except (OSError, ManifestError) as error:
            self.report(f"{self.folder}/{MANIFEST} is not used: {error}")
            return nothing

    @property
    def kernels(self) -> tuple[str, ...]:
        """A line for each compiled kernel: its name, signature, launch and architecture."""
        return tuple(each.describe() for each in self.manifest.entries)

    @cached_property
    def _found(self) -> tuple[Index | None, str]:
        try:
            found = Index(self._read(MANIFEST))
        except OSError as error:
            # This is usual while the package is developed.
            problem = f"{self.folder}/{MANIFEST} cannot be read: {error.strerror or error}"
            logger.debug("%s: %s", self.package, problem)
            return None, problem
        except ManifestError as error:
            problem = f"{self.folder}/{MANIFEST} is not used: {error}"
            self.report(problem)
            return None, problem
        return found, ""

    def has_kernel(self, name: str) -> bool:
        """Return whether there is code of a kernel, given its module and qualified name."""
        index, _ = self._found
        return index is not None and name in index.kernels

    def work(self, key: str) -> Any:
        """Return the work of a kernel as JSON has it, if this version of kerneldsl counted it."""
        return self._value("works", key)

    def forms(self, key: str) -> list[Any]:
        """Return the forms of a kernel as JSON has them, if this version of kerneldsl made them."""
        return self._value("forms", key) or []

    def _value(self, part: str, key: str) -> Any:
        index, _ = self._found
        if index is None or index.kerneldsl != __version__:
            return None
        try:
            return index.value(part, key)
        except ManifestError as error:
            self.report(f"{self.folder}/{MANIFEST}: {error}")
            return None

    def find(self, key: str) -> Entry | None:
        """Return the entry of a key's digest."""
        index, _ = self._found
        try:
            return None if index is None else index.find(key)
        except ManifestError as error:
            self.report(f"{self.folder}/{MANIFEST}: {error}")
            return None

    def sections(self, entry: Entry) -> dict[str, bytes]:
        """Read the code of an entry, in the sections of `Compiler.ship`.

        Raises `DamagedFileError` if a file is not what the manifest says.
        """
        code = {section: self._checked(name) for section, name in entry.files.items()}
        return {"metadata": json.dumps(entry.metadata).encode(), **code}

    def source_of(self, module: str) -> str | None:
        """Return the text of a module's kernels, if it is shipped."""
        index, _ = self._found
        name = None if index is None else index.source(module)
        try:
            return None if name is None else self._checked(name).decode()
        except (DamagedFileError, UnicodeDecodeError) as error:
            self.report(str(error))
            return None

    def _checked(self, name: str) -> bytes:
        index, problem = self._found
        if index is None:
            raise DamagedFileError(problem)
        try:
            file = index.file(name)
            data = self._read(name)
        except ManifestError as error:
            raise DamagedFileError(f"{self.folder}/{MANIFEST}: {error}") from error
        except OSError as error:
            raise DamagedFileError(
                f"{self.folder}/{name} cannot be read: {error.strerror or error}"
            ) from error
        if len(data) != file.nbytes or hashlib.sha256(data).hexdigest() != file.sha256:
            raise DamagedFileError(f"{self.folder}/{name} is damaged: its SHA-256 differs")
        return data

    def report(self, problem: str, instead: str = "The kernel is compiled") -> None:
        """Warn of a file that is not used, once; say what is done instead."""
        if problem not in self._reported:
            self._reported.add(problem)
            warn_user(
                f"the shipped kernels of {self.package}: {problem}. {instead}. "
                "Install the package again, or build it anew",
                CacheWarning,
            )

    def refuse(self, kernel: str, wanted: str, reason: str) -> NotShippedError:
        """Return the error for a kernel that is not shipped."""
        same = describe_entries(each for each in self.manifest.entries if each.kernel == kernel)
        known: Any = same or sorted({each.kernel for each in self.manifest.entries})
        shown = "; ".join(known[:_MOST_SHOWN]) or "nothing"
        if len(known) > _MOST_SHOWN:
            shown += f"; and {len(known) - _MOST_SHOWN} more"
        reason = reason or self.problem
        return NotShippedError(
            f"{self.package} does not ship {wanted}" + (f": {reason}" if reason else ""),
            value=kernel,
            limit=f"It ships {shown}",
            remedy="Build the package for this signature, launch and architecture, or call "
            "load_package without strict=True",
        )


def shipped_kernels_of(module: str) -> ShippedKernels | None:
    """Return what the package of a module ships, if it was loaded."""
    if not _packages:
        return None
    return next((_packages[name] for name in packages_of(module) if name in _packages), None)
