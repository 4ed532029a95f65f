"""Reading one file, which is not believed to be one."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from kerneldsl.cache.reasons import BadEntry, Reason

__all__ = ["TEMPORARY", "check_plain", "open_plain", "read_all"]

#: What the names of files that are being written begin with.
TEMPORARY = ".writing-"
# Neither exists on Windows. Without O_NONBLOCK, opening a pipe would wait for its writer.
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


def open_plain(path: Path) -> tuple[int, os.stat_result]:
    """Open a plain file for reading; the descriptor is the caller's to close.

    Raises `BadEntry` if it is not a regular file, `OSError` as the system does.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW | _COMMON)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise BadEntry(Reason.KIND, f"{path.name} is not a regular file") from error
        if path.is_dir():  # Windows opens no folder
            raise BadEntry(Reason.KIND, f"{path.name} is a folder") from error
        raise
    try:
        status = check_plain(descriptor, path.name)
        if not _NO_FOLLOW and path.is_symlink():
            raise BadEntry(Reason.KIND, f"{path.name} is a link")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


def check_plain(descriptor: int, name: str) -> os.stat_result:
    """Return the status of an open file; raise `BadEntry` if it is not a regular one."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise BadEntry(Reason.KIND, f"{name} is not a regular file")
    return status


def read_all(descriptor: int, size: int, limit: int) -> bytes:
    """Read a file to its end, whatever its size was said to be.

    Raises `BadEntry` if there are more than `limit` bytes.
    """
    parts: list[bytes] = []
    left = limit + 1
    while left > 0:
        part = os.read(descriptor, min(left, max(size + 1, 1 << 16)))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    if left <= 0:
        raise BadEntry(Reason.SIZE, f"more than {limit} bytes")
    return b"".join(parts)
