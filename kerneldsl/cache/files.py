"""Reading and writing one file so that a reader finds it whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path

from kerneldsl.cache.reasons import BadEntry, Reason

__all__ = ["TEMPORARY", "open_plain", "read_all", "write_whole"]

#: What the names of files that are being written begin with.
TEMPORARY = ".writing-"
# Neither exists on Windows. Without O_NONBLOCK, opening a pipe would wait for its writer.
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Errors of fsync on a folder, on file systems that know no such thing.
_NO_SYNC = {errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES, errno.EPERM}


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
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise BadEntry(Reason.KIND, f"{path.name} is not a regular file")
        if not _NO_FOLLOW and path.is_symlink():
            raise BadEntry(Reason.KIND, f"{path.name} is a link")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor, status


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


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Write a file so that at every moment it is there whole, or as it was before.

    It is written under another name in the same folder, forced to the disk, given its name, and
    then the folder is forced to the disk. It is not read back: what a file system gives to the one
    who wrote need not be what it will give to others. If a step fails, nothing is left behind, as
    far as the system lets us.
    """
    temporary = path.parent / f"{TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON, mode)
    try:
        try:
            rest = memoryview(data)
            while rest:  # a write may take less than it is given
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)  # network file systems report a failed write here
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # a folder cannot be opened there
        return
    descriptor = os.open(folder, os.O_RDONLY | _COMMON)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise
    finally:
        os.close(descriptor)
