"""Disk cache of compiled kernels, kept between processes: ``kd.cache``.

One file an entry, which says what it is of and whether it is whole; see
:mod:`~kerneldsl.cache.entry` for the format and ``docs/cache.md`` for what is promised. The parts
from the outside inwards: :mod:`~kerneldsl.cache.api`, :mod:`~kerneldsl.cache.disk` (the two
folders of a process), :mod:`~kerneldsl.cache.store` (one folder), :mod:`~kerneldsl.cache.files`
(one file).
"""

from __future__ import annotations

from kerneldsl.cache.api import (
    clear,
    entries,
    export,
    import_,
    is_on,
    path,
    prune,
    reset_stats,
    stats,
    verify,
)

__all__ = [
    "clear",
    "entries",
    "export",
    "import_",
    "is_on",
    "path",
    "prune",
    "reset_stats",
    "stats",
    "verify",
]
