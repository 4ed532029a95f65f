"""Modules that another thread or a program may import, and imports that are whole or not at all."""

from __future__ import annotations

import logging
import sys
import threading
from importlib import import_module
from typing import Any

from kerneldsl.errors import ToolMissingError
from kerneldsl.utilities.address_space import Addresses
from kerneldsl.utilities.locks import no_fork

__all__ = [
    "import_sympy",
    "import_whole",
    "imported",
    "is_masked_array",
    "is_of_numba",
    "may_be_shipped",
]


def imported(name: str) -> Any:
    """Return a module if it has been imported whole, else ``None``.

    ``sys.modules`` holds a module from the first moment of its import, so another thread finds it
    there half made.

    Notes
    -----
    The import system itself distinguishes the two by the same attribute of the module's spec. A
    module without one was put there by hand and counts as whole.
    """
    module = sys.modules.get(name)
    if module is None or getattr(getattr(module, "__spec__", None), "_initializing", False):
        return None
    return module


def is_of_numba(value: object, kind: str) -> bool:
    """Return whether an object is of a class of Numba's of that name; Numba is not imported."""
    return any(
        base.__name__ == kind and base.__module__.startswith(("numba.", "numba_cuda."))
        for base in type(value).__mro__
    )


def is_masked_array(kind: type) -> bool:
    """Return whether a class is NumPy's of masked arrays; ``numpy.ma`` is not imported."""
    module = imported("numpy.ma")
    return module is not None and issubclass(kind, module.MaskedArray)


_log = logging.getLogger("kerneldsl.imports")


class _Import(threading.Thread):
    """Imports a package.

    It is not joined: an interrupted `join` takes the thread for one that has ended (bpo-45274).
    """

    def __init__(self, package: str) -> None:
        super().__init__(name="kerneldsl-import")
        self.package = package
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            with no_fork:  # a child would wait for the import for ever
                import_module(self.package)
        except Exception as error:  # noqa: BLE001 -- the next import raises it again
            _log.debug("import of %s: %s", self.package, error)
        finally:
            self.is_over.set()


#: Imports that were begun here, by the names of packages.
_begun: dict[str, _Import] = {}


def import_whole(package: str) -> None:
    """Import a package of others whole, or not at all.

    Python runs signal handlers in the main thread, between any two instructions. One that raises,
    as for Ctrl-C, can do so in the middle of ``import numba``. Modules of it that import each other
    then remain half imported, and every later import fails. So another thread imports the package.
    The main thread waits for it, and a handler may raise there.

    Does nothing for what is imported already, nor outside the main thread, where no handler runs.
    A limit on addresses leaves the import to the caller: a thread takes 70 MiB of them.
    An error is raised again by the next import of the package.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    thread = _begun.get(package)
    if thread is None and (package in sys.modules or Addresses.limited() is not None):
        return
    if thread is None or thread.ident is None:  # it was interrupted before it began
        thread = _Import(package)
        _begun[package] = thread
        try:
            thread.start()
        except RuntimeError:  # there are too many threads, or the process ends
            del _begun[package]
            return
    thread.is_over.wait()


def may_be_shipped() -> bool:
    """Return whether a package may have loaded kernels that it ships, without importing anything.

    A package that loads its kernels imports the module that is looked at.
    """
    return imported("kerneldsl.shipping.packages") is not None


def import_sympy(purpose: str) -> Any:
    """Return the module ``sympy``.

    - `purpose`: use of the module, as a sentence of the error.
    - raises `ToolMissingError` if it is not installed.
    """
    try:
        import sympy
    except ImportError as error:
        raise ToolMissingError(
            "SymPy is not installed", limit=purpose, remedy='pip install "kerneldsl[sym]"'
        ) from error
    return sympy
