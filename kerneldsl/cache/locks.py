"""Locks between the processes that use one cache folder: a byte of one file is a lock.

They are advisory locks of `fcntl.lockf` (POSIX, ``fcntl``). The system releases a lock when its
process ends, however it ends. A forked child has none of its parent's locks. Network file systems
that support locks support these. No result depends on them: a lock saves work. If there are no
locks, or another process holds one for too long, the waiting process goes on without.

A process that closes the file releases all its locks on the file. So it opens the file once for all
its threads.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from kerneldsl.cache.directory import check_plain
from kerneldsl.cache.folders import STATE, Folder
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry
from kerneldsl.errors import CacheError
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["key_locked", "size_locked"]

_FILE = "lock"
#: Byte that is locked while the estimate of the size is changed; those of keys come after it.
_SIZE_BYTE = 0
#: Digits of a digest that keep the position of a byte below 2**63.
_DIGITS = 15
#: Longest wait for a compilation in another process, in seconds; most take less than five.
COMPILATION_S = 30.0
#: Longest wait for the lock of the estimate, in seconds; changing it takes a millisecond.
_SIZE_S = 1.0
_PAUSE_S = 0.01


class _LockFile:
    """The file of one folder, open while this process holds a lock on it or waits for one."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        #: Threads that hold a lock or wait for one; the last one closes the file.
        self.users = 0
        #: The bytes that are locked, and the thread that has locked each.
        self.held: dict[int, int] = {}


_lock = ForkSafeLock()
#: Lock files by process and folder; so a forked child begins with none.
_files: dict[tuple[int, Path], _LockFile] = {}
#: Folders in which a wait for another process went on for too long: no process waits there again.
_given_up: set[Path] = set()


@contextmanager
def key_locked(
    folder: Folder, key: Key, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Lock a key for a ``with`` block, or go on without where another process takes too long.

    If another process has the lock, `meanwhile` is called once.
    """
    byte = _SIZE_BYTE + 1 + int(key.digest[:_DIGITS], 16)
    with _locked(folder, byte, 0.0 if _holds_a_key() else COMPILATION_S, meanwhile):
        yield


@contextmanager
def size_locked(folder: Folder) -> Iterator[None]:
    """Lock the estimate of a folder's size for a ``with`` block."""
    with _locked(folder, _SIZE_BYTE, _SIZE_S):
        yield


def _holds_a_key() -> bool:
    # A process that holds one lock and waits for another may wait for one that waits for the first.
    own, thread = os.getpid(), threading.get_ident()
    with _lock:
        return any(
            byte != _SIZE_BYTE and holder == thread
            for (process, _), file in _files.items()
            if process == own
            for byte, holder in file.held.items()
        )


@contextmanager
def _locked(
    folder: Folder, byte: int, limit_s: float, meanwhile: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Lock a byte for a ``with`` block, or go on without after `limit_s`."""
    with ExitStack() as stack:
        try:
            file = stack.enter_context(_opened(folder))
            if _wait(folder, file, byte, limit_s, meanwhile):
                stack.callback(_unlock, file, byte)
        except (OSError, BadEntry, CacheError, ImportError) as error:
            logger.debug("cache: no locks in %s: %s", folder.path, error)
        yield


@contextmanager
def _opened(folder: Folder) -> Iterator[_LockFile]:
    """Open the file for a ``with`` block, or share what another thread has open."""
    at = os.getpid(), folder.path
    with _lock:
        file = _files.get(at)
        if file is None:
            file = _files[at] = _LockFile(_open(folder))
        file.users += 1
    try:
        yield file
    finally:
        with _lock:
            file.users -= 1
            # A descriptor that is kept permanently would be one of another file, once a program
            # closed all.
            if not file.users:
                del _files[at]
                with contextlib.suppress(OSError):
                    os.close(file.descriptor)


def _wait(
    folder: Folder, file: _LockFile, byte: int, limit_s: float, meanwhile: Callable[[], None]
) -> bool:
    """Lock a byte as soon as it is free; ``False`` after `limit_s`. Raises `OSError`."""
    until, has_worked = time.monotonic() + limit_s, False
    while not _take(file, byte):
        if folder.path in _given_up or not limit_s:
            return False
        if time.monotonic() >= until:
            logger.debug("cache: %s is locked for %.0f s", folder.path, limit_s)
            _given_up.add(folder.path)
            return False
        if has_worked:
            time.sleep(_PAUSE_S)
        else:
            has_worked = True
            meanwhile()
    return True


def _take(file: _LockFile, byte: int) -> bool:
    """Lock a byte; ``False`` if somebody has it. Raises `OSError` where nothing can be locked."""
    with _lock:
        if byte in file.held:
            return False
        try:
            _set(file.descriptor, byte, is_locked=True)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            return False
        file.held[byte] = threading.get_ident()
    return True


def _unlock(file: _LockFile, byte: int) -> None:
    with _lock:
        file.held.pop(byte, None)
        with contextlib.suppress(OSError):
            _set(file.descriptor, byte, is_locked=False)


def _set(descriptor: int, byte: int, *, is_locked: bool) -> None:
    """Lock a byte, or give it back, without waiting. Raises `OSError`."""
    if sys.platform == "win32":
        raise OSError(errno.ENOSYS, "there are no such locks")
    import fcntl

    fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB if is_locked else fcntl.LOCK_UN, 1, byte)


def _open(folder: Folder) -> int:
    """Open the file; to lock it takes the right to write to it."""
    with folder.opened(STATE, make=True) as state:
        try:
            new = os.O_RDWR | os.O_CREAT | os.O_EXCL
            descriptor = state.open_file(_FILE, new, folder.file_mode)
        except FileExistsError:
            descriptor = state.open_file(_FILE, os.O_RDWR)
        else:
            if folder.is_shared:  # whoever may write to the folder, whatever the umask
                os.chmod(descriptor, stat.S_IMODE(state.status().st_mode) & 0o666)
    try:
        check_plain(descriptor, _FILE)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
