"""Status of files, which shows whether they were changed: i-node, size, and two times.

The times are those of the last change of contents and of status. The second one is the system's,
and programs cannot set it.
"""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Iterable

__all__ = ["digest_of_status", "status_of"]

_WORD = (1 << 64) - 1


def status_of(paths: Iterable[str], before_ns: int | None = None) -> bytes | None:
    """Return a digest of the status of files.

    ``None`` if one is gone, or was changed after a time.
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
    return digest_of_status(found)


def digest_of_status(found: Iterable[os.stat_result]) -> bytes:
    """Return a digest of what :func:`os.stat` found of files, in their order."""
    rows = array("Q")
    for each in found:
        times = (each.st_mtime_ns & _WORD, each.st_ctime_ns & _WORD)  # some are before 1970
        rows.extend((each.st_ino, each.st_size, *times))
    return hashlib.sha256(rows).digest()
