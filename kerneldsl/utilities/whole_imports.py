"""Imports that an interrupt does not leave half done.

Python runs signal handlers in the main thread, between any two instructions. One that raises, as
for Ctrl-C, can do so in the middle of ``import numba``. Modules of it that import each other then
remain half imported, and every later import fails. So another thread imports the package. The main
thread waits for it, and a handler may raise there.
"""

from __future__ import annotations

import logging
import sys
import threading
from importlib import import_module

from kerneldsl.utilities.address_space import Addresses
from kerneldsl.utilities.locks import no_fork

__all__ = ["import_whole"]

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
