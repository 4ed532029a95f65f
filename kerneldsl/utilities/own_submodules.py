"""Imports inside a package of ours whose own name leads to a module of the program.

For ``from targets.cuda.device import pools`` CPython imports ``targets.cuda.device.pools`` by
``__import__``, which asks for ``targets``, too: that would run the program's. It does so only where
``targets.cuda.device`` has no attribute of that name, so packages of ours get a ``__getattr__``
that imports their modules (PEP 562). Only then: a type checker would know every attribute.

References
----------
CPython, ``Lib/importlib/_bootstrap.py``, ``_handle_fromlist``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

__all__ = ["find_below"]


class _Loader(SourceFileLoader):
    """Loads a package that imports its modules when they are asked for."""

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
    """Finds packages below a folder of ours.

    `importlib.abc.MetaPathFinder` would be its base; importing that takes longer than all of this.
    """

    def __init__(self, package: str, folder: str) -> None:
        self._start = f"{package}."
        self._folder = folder

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how a package of ours is loaded; ``None`` for whatever else."""
        if not name.startswith(self._start) or not path or not path[0].startswith(self._folder):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.submodule_search_locations is None or spec.origin is None:
            return None
        spec.loader = _Loader(name, spec.origin)
        return spec


def find_below(package: str, folder: str) -> None:
    """Let packages of ours in a folder, which are imported from now on, import their modules."""
    if not any(isinstance(each, _Finder) for each in sys.meta_path):
        sys.meta_path.insert(0, _Finder(package, folder))
