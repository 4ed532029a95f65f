"""Disk cache of compiled kernels for all processes: ``kd.cache``.

Each entry is one file with a description and a checksum. :mod:`~kerneldsl.cache.entry` documents
the format, ``docs/cache.md`` the guarantees. :mod:`~kerneldsl.cache.management` has the operations
on the whole cache. The layers below it are :mod:`~kerneldsl.cache.disk` (the two folders of a
process), :mod:`~kerneldsl.cache.store` (one folder) and :mod:`~kerneldsl.cache.directory` (files).

Examples
--------
>>> import kerneldsl as kd
>>> kd.cache.reset_stats()
>>> kd.cache.stats().hits
0
"""

from __future__ import annotations

from typing import Any

#: Name to its module. The stub for type checkers is made of it.
_NAMES = "clear entries export import_ is_on path prune reset_stats stats verify"
_HOME = dict.fromkeys(_NAMES.split(), "kerneldsl.cache.management")
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    # A launch imports this package, and of shipped code none of its modules.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    # Imports of this file are not public.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
