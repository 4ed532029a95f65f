"""Imports of the packages that are installed beside kerneldsl, whatever else has their names.

``targets`` is a common name: a script's folder may contain a ``targets.py``, which Python finds
first. kerneldsl's packages are next to this one, in the distribution and in the checkout. If a
module of the program has the name, the packages in ``targets`` are imported under their own names.
``targets`` itself remains the program's. kerneldsl never runs it, also when its packages import
each other.

Imports inside a package of kerneldsl need care, too. For ``from targets.cuda.device import pools``
CPython imports ``targets.cuda.device.pools`` by ``__import__``, which also imports ``targets``, and
would run the program's. It does so only if ``targets.cuda.device`` has no attribute of that name,
so these packages get a ``__getattr__`` that imports their modules (PEP 562). They get it only in
this case: a type checker would know every attribute.

References
----------
CPython, ``Lib/importlib/_bootstrap.py``, ``_handle_fromlist``.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from kerneldsl.errors import ShadowedPackageError
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["import_own", "is_same_file", "require_own_packages"]

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Held while ``targets`` is kerneldsl's package for the imports of its parts.
_standing_in = ForkSafeLock()


def require_own_packages() -> None:
    """Import the packages that belong to kerneldsl.

    Raises `ShadowedPackageError` if one is missing, or a module of the program hides it.
    """
    import_own("targets.null")
    import_own("stdlib_kernels")


def import_own(name: str) -> ModuleType:
    """Import a module of a package that belongs to kerneldsl.

    Raises `ShadowedPackageError` if the package is missing, or a module of the program hides it.
    """
    package = name.partition(".")[0]
    found = _location(package)
    ours = os.path.join(_ROOT, package, "__init__.py")
    if not os.path.isfile(ours):
        raise ShadowedPackageError(
            f"the package {package!r}, which is part of kerneldsl, is not installed",
            value=package,
            remedy="Install kerneldsl again, or put the root of its checkout on the path",
        )
    if package not in sys.modules and found is not None and _is_running_script(found):
        # The file is __main__ already; an import by its name would run it a second time.
        _import_file(package, ours)
    elif found is None or not is_same_file(found, ours):
        _import_parts(package, found)
    return importlib.import_module(name)


def _location(package: str) -> str | None:
    """Return the file or folder of the module that Python finds by a name."""
    loaded = sys.modules.get(package)
    if loaded is not None:
        return getattr(loaded, "__file__", None)
    spec = importlib.util.find_spec(package)
    return spec.origin if spec is not None else None


def _is_running_script(found: str) -> bool:
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return file is not None and is_same_file(file, found)


def is_same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Return whether two paths are of one file or folder that exists."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _import_parts(package: str, place: str | None) -> None:
    """Import the parts of a package of kerneldsl that another module hides.

    To import ``targets.cpu.regions.ids``, Python needs ``targets.cpu`` among the loaded modules. If
    that is missing, it imports ``targets``. So all packages below are imported while ``targets`` is
    kerneldsl's. Otherwise kerneldsl would run a module of the program.
    """
    from pathlib import Path  # which takes longer to import than the rest of this module

    root, found = Path(_ROOT), Path(place) if place is not None else None
    files = [f for f in sorted((root / package).glob("*.py")) if f.name != "__init__.py"]
    parts = {f"{package}.{file.stem}": str(file) for file in files}
    for file in sorted((root / package).glob("*/**/__init__.py")):
        parts[".".join(file.parent.relative_to(root).parts)] = str(file)
    # A folder of the program can have parts with the same names.
    folder = found.parent if found is not None and found.name == "__init__.py" else None
    taken = {f"{package}.{each.stem}" for each in folder.iterdir()} if folder is not None else set()
    clash = [n for n, file in parts.items() if n in taken or not _is_ours(sys.modules.get(n), file)]
    if clash or package != "targets":
        raise ShadowedPackageError(
            f"the module {package!r} at {found} hides kerneldsl's own package of that name",
            value=str(found),
            limit=f"kerneldsl imports {', '.join(clash) or package} by that name",
            remedy=f"Rename {found}, or move it after kerneldsl on sys.path",
        )
    if all(name in sys.modules for name in parts):
        return
    ours = os.path.join(_ROOT, package)
    _find_below(package, ours)
    with _ours_standing_in(package):
        for name in parts:
            importlib.import_module(name)
    logger.debug("%s is %s here; kerneldsl's are imported from %s", package, found, ours)


@contextmanager
def _ours_standing_in(package: str) -> Iterator[None]:
    """Import kerneldsl's package under a name, and then restore the program's module."""
    with _standing_in:
        theirs = sys.modules.pop(package, None)
        try:
            _import_file(package, os.path.join(_ROOT, package, "__init__.py"))
            yield
        finally:
            sys.modules.pop(package, None)
            if theirs is not None:
                sys.modules[package] = theirs


def _import_file(name: str, file: str) -> None:
    """Import a module, or a package by its ``__init__.py``, under a name."""
    folder, short = os.path.split(file)
    folders = [folder] if short == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _is_ours(loaded: ModuleType | None, ours: str) -> bool:
    """Return whether a name is free, or already belongs to a file of kerneldsl."""
    file = getattr(loaded, "__file__", None)
    return loaded is None or (file is not None and is_same_file(file, ours))


class _Loader(SourceFileLoader):
    """Loads a package that imports its modules when they are requested."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the package's file."""
        module.__dict__["__getattr__"] = partial(_submodule, module.__name__)
        super().exec_module(module)


def _submodule(package: str, name: str) -> ModuleType:
    missing = f"module {package!r} has no attribute {name!r}"
    if name.startswith("__"):
        raise AttributeError(missing)
    try:
        return importlib.import_module(f"{package}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{package}.{name}":
            raise
        raise AttributeError(missing) from None


class _Finder:
    """Finds packages below a folder of kerneldsl.

    `importlib.abc.MetaPathFinder` would be its base; importing that takes longer than all of this.
    """

    def __init__(self, package: str, folder: str) -> None:
        self._start = f"{package}."
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a package of kerneldsl is loaded; ``None`` for whatever else."""
        if not name.startswith(self._start) or not path or not path[0].startswith(self._folder):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.submodule_search_locations is None or spec.origin is None:
            return None
        spec.loader = _Loader(name, spec.origin)
        return spec


def _find_below(package: str, folder: str) -> None:
    """Let packages in a folder of kerneldsl that are imported later import their modules."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(package, folder))
