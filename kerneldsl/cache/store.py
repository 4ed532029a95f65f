"""The entries of one folder: read, written, listed, put aside, removed.

An entry depends on its file alone: there is no index. So operations of several processes cannot
mix. Each process reads a whole file or none. The last writer of a key wins, and its entry is as
good as the others. Only files with names of this module are listed, moved and removed, each by the
descriptor of its folder.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kerneldsl.cache.directory import TEMPORARY, open_plain, read_all
from kerneldsl.cache.entry import MAX_ENTRY_BYTES, Entry, decode, encode
from kerneldsl.cache.folders import (
    ENTRIES,
    QUARANTINE,
    STATE,
    Folder,
    is_open_to_all,
    is_open_to_others,
)
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.errors import CacheError
from kerneldsl.utilities.environment import logger

if TYPE_CHECKING:  # a warm start changes nothing
    from kerneldsl.cache.directory import Directory

__all__ = ["SUFFIX", "Listed", "Store"]

SUFFIX = ".kdc"
_ENTRY = r"[0-9a-f]{64}\.kdc"
#: An entry, and the reason why it was put aside.
_ASIDE = rf"{_ENTRY}\.[a-z]{{2,16}}"
_UNFINISHED = rf"{re.escape(TEMPORARY)}\d+-[0-9a-f]{{16}}"
#: A read renews an entry's time stamp if that is older than this, in seconds.
_RENEW_AFTER_S = 60.0
#: Files that are kept in the quarantine, for somebody to look at.
_MAX_QUARANTINED = 16


class Listed(NamedTuple):
    """A file of an entry, unread."""

    #: The file.
    path: Path
    #: Size of the file in bytes.
    nbytes: int
    #: Time of the last use or write, by the clock of that time, in seconds since the epoch.
    used_s: float

    @property
    def digest(self) -> str:
        """Digest of the key, by which the file is named."""
        return self.path.name.removesuffix(SUFFIX)


class Store:
    """The entries of one folder.

    The folder has been checked. With a secret, entries are signed, and read only if they are.
    """

    def __init__(self, folder: Folder, secret: bytes | None = None) -> None:
        self.folder = folder
        self._secret = secret

    def path_of(self, key: Key) -> Path:
        """Return the file of a key, whether it is there or not."""
        return self.folder.entries / f"{key.digest}{SUFFIX}"

    # ------------------------------------------------------------------ reading

    def read(self, key: Key) -> tuple[Entry, int]:
        """Read an entry.

        Return with it the bytes that were read. Raises `BadEntry` if there is none that can be
        used; a damaged file has been put aside.
        """
        path = self.path_of(key)
        try:
            return self.read_file(path, key.encoded)
        except BadEntry as bad:
            if bad.reason is not Reason.ABSENT:
                logger.debug("cache: %s cannot be used: %s", path, bad)
            if bad.reason.is_damage and not self.folder.is_site:
                self.quarantine_file(path, bad.reason)
            raise

    def read_file(self, path: Path, key: bytes | None = None) -> tuple[Entry, int]:
        """Read a file as an entry, of a key where one is given; leave it as it is.

        Raises `BadEntry` if it cannot be used.
        """
        try:
            descriptor, status = open_plain(path)
            try:
                self._check_file(path, status)
                data = read_all(descriptor, status.st_size, MAX_ENTRY_BYTES)
                entry = decode(data, key, self._secret)
                self._renew(path, descriptor, status)
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise BadEntry(Reason.ABSENT, path.name) from None
        except OSError as error:
            raise BadEntry(Reason.IO, str(error)) from error
        return entry, len(data)

    def _check_file(self, path: Path, status: os.stat_result) -> None:
        folder = self.folder
        if status.st_size > MAX_ENTRY_BYTES:
            raise BadEntry(Reason.SIZE, f"{path.name} has {status.st_size} bytes")
        if folder.is_shared:
            return
        if not folder.trusts(status) and not self._has_owner_of_folder(path, status):
            raise BadEntry(Reason.OWNER, f"{path.name} belongs to user {status.st_uid}")
        if is_open_to_all(status) or (is_open_to_others(status) and not folder.is_site):
            raise BadEntry(Reason.MODE, f"{path.name} can be written to by others")

    def _has_owner_of_folder(self, path: Path, status: os.stat_result) -> bool:
        """Return whether a file of a site has the owner of its folder."""
        try:
            # The folder may be another one than the one that was checked when the process began.
            is_site = self.folder.is_site and self.folder.check()
            return is_site and os.stat(path.parent).st_uid == status.st_uid
        except (CacheError, OSError):
            return False

    def _renew(self, path: Path, descriptor: int, status: os.stat_result) -> None:
        """Note that an entry was used; eviction goes by that."""
        # A stamp of the future is renewed too: the clock was wrong then, or is now.
        if not self.folder.is_site and abs(time.time() - status.st_mtime) > _RENEW_AFTER_S:
            with contextlib.suppress(OSError):  # evicted meanwhile, or a folder for reading
                os.utime(descriptor if os.utime in os.supports_fd else path)

    # ------------------------------------------------------------------ writing

    def write(self, key: Key, sections: Mapping[str, bytes]) -> int:
        """Write an entry, over one that is there; return its bytes.

        Raises `BadEntry` if it is too large to be read again, `CacheError` if the folder has become
        unsafe, and `OSError` if it cannot be written. The previous entry then stays.
        """
        data = self.encoded(key, sections)
        self.write_encoded(key, data)
        return len(data)

    def encoded(self, key: Key, sections: Mapping[str, bytes]) -> bytes:
        """Return an entry as it is written; raise `BadEntry` if it is too large."""
        data = encode(key.encoded, sections, self._secret)
        if len(data) > MAX_ENTRY_BYTES:
            raise BadEntry(Reason.SIZE, f"{len(data)} bytes; an entry has {MAX_ENTRY_BYTES}")
        return data

    def write_encoded(self, key: Key, data: bytes) -> None:
        """Write what :meth:`encoded` returned."""
        with self.folder.opened(ENTRIES, make=True) as entries:
            entries.write(self.path_of(key).name, data, self.folder.file_mode)

    # ------------------------------------------------------------- housekeeping

    def listed(self) -> list[Listed]:
        """Return every entry, unread; those that vanish meanwhile are left out."""
        return self._scan(ENTRIES, _ENTRY)

    def unfinished(self) -> list[Listed]:
        """Return files that writers have begun and not finished; some may be at it now."""
        return self._scan(ENTRIES, _UNFINISHED) + self._scan(STATE, _UNFINISHED)

    def quarantined(self) -> list[Listed]:
        """Return the damaged files that were put aside."""
        return self._scan(QUARANTINE, _ASIDE)

    def _scan(self, folder: str, name: str) -> list[Listed]:
        at, is_ours = self.folder.path / folder, re.compile(name).fullmatch
        try:
            with self.folder.opened(folder) as files:
                return [
                    Listed(at / found, status.st_size, status.st_mtime)
                    for found, status in files.scan()
                    if is_ours(found)
                ]
        except (OSError, CacheError) as error:
            if not isinstance(error, FileNotFoundError):
                logger.debug("cache: %s cannot be listed: %s", at, error)
            return []

    def remove(self, files: Iterable[Listed]) -> tuple[list[Listed], list[Listed]]:
        """Remove files that were listed; return which are gone by our doing, and which stay."""
        removed: list[Listed] = []
        kept: list[Listed] = []
        by_folder: dict[str, list[Listed]] = {}
        for file in files:
            by_folder.setdefault(file.path.parent.name, []).append(file)
        for name, each in by_folder.items():
            try:
                with self.folder.opened(name) as folder:
                    for file in each:
                        is_gone = _remove(folder, file.path.name)
                        if is_gone is not None:
                            (removed if is_gone else kept).append(file)
            except (OSError, CacheError) as error:
                logger.debug("cache: nothing is removed from %s: %s", name, error)
                kept += each
        return removed, kept

    def quarantine_file(self, path: Path, reason: Reason) -> None:
        """Move a damaged file to the quarantine folder, which keeps a few for inspection."""
        try:
            with self.folder.opened(ENTRIES) as entries:
                try:
                    with self.folder.opened(QUARANTINE, make=True) as quarantine:
                        # A second file of the same name is damaged in the same way, most likely.
                        entries.move(path.name, quarantine, f"{path.name}.{reason}")
                except (OSError, CacheError) as error:
                    logger.debug("cache: %s cannot be put aside: %s", path, error)
                    _remove(entries, path.name)
        except (OSError, CacheError) as error:
            logger.debug("cache: %s cannot be put aside: %s", path, error)
            return
        kept = sorted(self.quarantined(), key=lambda each: each.used_s)
        self.remove(kept[:-_MAX_QUARANTINED])


def _remove(folder: Directory, name: str) -> bool | None:
    """Remove a file; say whether that could be done, ``None`` if it was gone already."""
    try:
        folder.remove(name)
    except FileNotFoundError:
        return None
    except OSError as error:  # open elsewhere, on Windows; a folder for reading
        logger.debug("cache: %s cannot be removed: %s", folder.path / name, error)
        return False
    return True
