"""An open folder; its files are reached through its descriptor and by their names alone.

A user who can write to a shared cache can replace a folder or file by a link. That may happen
between a check and a use. A descriptor stays with the folder that was opened and checked. No
function of this module follows a link below it. So files are written, moved, removed and listed in
that folder alone. Windows opens no folders: each name is checked for a link first, which leaves a
moment between check and use. Making a link there takes a right that other users' folders do not
give.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from kerneldsl.cache.reasons import BadEntry, Reason

__all__ = ["TEMPORARY", "Directory", "check_plain", "open_plain", "read_all", "write_whole"]

#: Whether a file can be opened by a folder's descriptor and a name within it.
_HAS_DESCRIPTORS = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
# None of these exists on Windows. Without O_NONBLOCK, opening a pipe would wait for its writer.
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
#: Flag for opening a folder on a path, which needs no right to list it where the system makes a
#: difference.
_PASS = getattr(os, "O_PATH", os.O_RDONLY)
#: Errors of fsync on a folder, on file systems that know no such thing.
_NO_SYNC = {errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.EACCES, errno.EPERM}


class Directory:
    """A folder that is open, for ``with``; a name is the last part of a path."""

    def __init__(self, path: Path, descriptor: int | None) -> None:
        #: The path at the time when it was opened.
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def open(cls, path: Path, *, is_passed: bool = False) -> Directory:
        """Open a folder; the path may be a link to one.

        One that is only passed through needs no right to list it. Raises `OSError`, such as
        `NotADirectoryError`.
        """
        if not _HAS_DESCRIPTORS:
            return cls(path, None)
        flags = (_PASS if is_passed else os.O_RDONLY) | _FOLDER | _COMMON
        return cls(path, os.open(path, flags))

    def child(self, name: str) -> Directory:
        """Open a folder in this one.

        Raises `OSError`; `NotADirectoryError` if it is a link or a file.
        """
        path = self.path / name
        if self._descriptor is None:
            self._refuse_link(name)
            return Directory(path, None)
        try:
            descriptor = os.open(
                name, os.O_RDONLY | _FOLDER | _NO_FOLLOW | _COMMON, dir_fd=self._descriptor
            )
        except OSError as error:
            if error.errno == errno.ELOOP:  # what some systems say of a link, instead of ENOTDIR
                raise NotADirectoryError(errno.ENOTDIR, "it is a link", str(path)) from error
            raise
        return Directory(path, descriptor)

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # nothing was written to it
                os.close(self._descriptor)

    # ------------------------------------------------------------------ looking

    def status(self) -> os.stat_result:
        """Return the status of the folder itself."""
        return os.stat(self.path) if self._descriptor is None else os.fstat(self._descriptor)

    def scan(self) -> Iterator[tuple[str, os.stat_result]]:
        """Return the names in the folder and what they are; links are not followed."""
        at = self.path if self._descriptor is None else self._descriptor
        with os.scandir(at) as files:
            for found in files:
                with contextlib.suppress(OSError):  # it vanished meanwhile
                    yield found.name, found.stat(follow_symlinks=False)

    def open_file(self, name: str, flags: int, mode: int = 0o600) -> int:
        """Open a file; the descriptor is the caller's to close.

        No link is followed, and no pipe waited for. Raises `OSError`.
        """
        flags |= _NO_FOLLOW | _NO_WAIT | _COMMON
        if self._descriptor is None:
            self._refuse_link(name)
            return os.open(self.path / name, flags, mode)
        return os.open(name, flags, mode, dir_fd=self._descriptor)

    def _refuse_link(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            status = os.lstat(self.path / name)
            # A junction is no symbolic link, and leads elsewhere anyway.
            if stat.S_ISLNK(status.st_mode) or getattr(status, "st_reparse_tag", None):
                raise NotADirectoryError(errno.ENOTDIR, "it is a link", str(self.path / name))

    # ------------------------------------------------------------------ changing

    def make(self, name: str, mode: int) -> bool:
        """Make a folder in this one; return whether it was not there. Raises `OSError`."""
        try:
            if self._descriptor is None:
                os.mkdir(self.path / name, mode)
            else:
                os.mkdir(name, mode, dir_fd=self._descriptor)
        except FileExistsError:
            return False
        return True

    def set_mode(self, mode: int) -> None:
        """Set the permissions of the folder itself."""
        if self._descriptor is not None:  # Windows has none
            os.chmod(self._descriptor, mode)

    def write(self, name: str, data: bytes, mode: int, *, is_forced: bool = True) -> None:
        """Write a file so that at every moment it is there whole, or as it was before.

        It is written under another name, forced to the disk, given its name, and then the folder is
        forced to the disk. What is not `is_forced` may be lost when the machine fails. It is not
        read back: what a file system gives to the one who wrote need not be what it will give to
        others. If a step fails, the file is removed if the system permits it.
        """
        temporary = f"{TEMPORARY}{os.getpid()}-{os.urandom(8).hex()}"
        descriptor = self.open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            try:
                rest = memoryview(data)
                while rest:  # a write may take less than it is given
                    rest = rest[os.write(descriptor, rest) :]
                if is_forced:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)  # network file systems report a failed write here
            self.move(temporary, self, name)
        except BaseException:
            with contextlib.suppress(OSError):
                self.remove(temporary)
            raise
        if is_forced:
            self._force()

    def _force(self) -> None:
        if self._descriptor is None:  # a folder cannot be opened there
            return
        try:
            os.fsync(self._descriptor)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise

    def move(self, name: str, to: Directory, new: str) -> None:
        """Give a file another name, here or in another folder, over one that is there."""
        if self._descriptor is None or to._descriptor is None:
            os.replace(self.path / name, to.path / new)
        else:
            os.replace(name, new, src_dir_fd=self._descriptor, dst_dir_fd=to._descriptor)

    def remove(self, name: str) -> None:
        """Remove a file or link. Raises `OSError`."""
        if self._descriptor is None:
            os.unlink(self.path / name)
        else:
            os.unlink(name, dir_fd=self._descriptor)


def write_whole(path: Path, data: bytes, mode: int) -> None:
    """Write a file that a person names, as :meth:`Directory.write` does. Raises `OSError`."""
    with Directory.open(path.parent) as folder:
        folder.write(path.name, data, mode)


#: Prefix of the names of files that are being written.
TEMPORARY = ".writing-"
_PLAIN_FILE = _NO_FOLLOW | _NO_WAIT


def open_plain(path: Path) -> tuple[int, os.stat_result]:
    """Open a plain file for reading; the descriptor is the caller's to close.

    Raises `BadEntry` if it is not a regular file, `OSError` as the system does.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | _PLAIN_FILE | _COMMON)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):  # a link; a socket
            raise BadEntry(Reason.KIND, f"{path.name} is not a regular file") from error
        if path.is_dir():  # Windows opens no folder
            raise BadEntry(Reason.KIND, f"{path.name} is a folder") from error
        raise
    try:
        status = check_plain(descriptor, path.name)
        if not _PLAIN_FILE and path.is_symlink():
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
