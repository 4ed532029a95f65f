"""Imports that another thread was in the middle of when the process forked.

Python keeps the lock of a module for the thread that imports it. In a forked child that thread is
gone, and who imports the module waits for it for ever. Modules of this package that were half
imported are imported anew there: they do nothing but define, so that it does no harm, and nothing
has them yet but other half-imported ones, as no modules of ours import each other in a circle.

Python has no public way to do that; where its private names are gone, nothing is done.
"""

from __future__ import annotations

import importlib
import sys
import threading
from typing import Any

__all__ = ["forget_half_imported"]

#: Packages whose modules are imported within functions.
_OURS = frozenset({"kerneldsl", "kerneldsl_demo", "stdlib_kernels", "targets"})


def forget_half_imported() -> None:
    """Let what threads of the parent were importing be imported again, in a forked child.

    Of a thread that was importing a module of ours that is all that it was importing.
    """
    locks: dict[str, Any] | None = getattr(_bootstrap(), "_module_locks", None)
    if not locks:
        return
    held: dict[str, int] = {}
    for name, reference in tuple(locks.items()):
        lock = reference()
        owner = getattr(lock, "owner", None)
        if isinstance(owner, int) and owner != threading.get_ident():
            held[name] = owner
    gone = {owner for name, owner in held.items() if name.partition(".")[0] in _OURS}
    for name, owner in held.items():
        if owner in gone:
            locks.pop(name, None)
            _forget(name)


def _bootstrap() -> Any:
    return getattr(importlib, "_bootstrap", None)


def _forget(name: str) -> None:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is None or not getattr(spec, "_initializing", False):
        return
    del sys.modules[name]
    package, _, last = name.rpartition(".")
    if getattr(sys.modules.get(package), last, None) is module:
        delattr(sys.modules[package], last)
