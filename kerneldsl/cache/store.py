"""The entries of one folder: read, written, listed, put aside.

Nothing here is shared between entries: no index, no lock, no count. What several processes do at
once therefore cannot mix: each reads a whole file or none, and the last writer of a key wins, whose
entry is as good as the others'.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from kerneldsl.cache.entry import MAX_ENTRY_BYTES, Entry, decode, encode
from kerneldsl.cache.files import TEMPORARY, open_plain, read_all, write_whole
from kerneldsl.cache.folders import Folder, is_foreign, is_open_to_others
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.utilities.environment import logger

__all__ = ["SUFFIX", "Listed", "Store", "evict"]

SUFFIX = ".kdc"
_NAME = r"[0-9a-f]{64}\.kdc"
#: A read renews an entry's time stamp where that is older than this, in seconds.
_RENEW_AFTER_S = 60.0
#: A file that nobody has finished for so long, in seconds, was left by a process that ended.
_ABANDONED_AFTER_S = 3600.0
#: A time stamp so far ahead, in seconds, comes from a clock that was wrong.
_FUTURE_S = 3600.0
#: Once the cache is full, this share of the cap is left, so that the next write finds room.
_REST = 0.9
#: Files that are kept in the quarantine, for somebody to look at.
_MAX_QUARANTINED = 16


class Listed(NamedTuple):
    """A file of an entry, unread."""

    #: The file.
    path: Path
    #: Its size.
    nbytes: int
    #: When it was last used or written, by the clock of then, in seconds since the epoch.
    used_s: float

    @property
    def digest(self) -> str:
        """Digest of the key, by which the file is named."""
        return self.path.name.removesuffix(SUFFIX)


class Store:
    """The entries of one folder.

    The folder has been checked. With a secret, entries are signed, and read only where they are.
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
                self.put_aside(path, bad.reason)
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
            finally:
                os.close(descriptor)
        except (FileNotFoundError, NotADirectoryError):
            raise BadEntry(Reason.ABSENT, path.name) from None
        except OSError as error:
            raise BadEntry(Reason.IO, str(error)) from error
        entry = decode(data, key, self._secret)
        self._renew(path, status)
        return entry, len(data)

    def _check_file(self, path: Path, status: os.stat_result) -> None:
        folder = self.folder
        if status.st_size > MAX_ENTRY_BYTES:
            raise BadEntry(Reason.SIZE, f"{path.name} has {status.st_size} bytes")
        if folder.is_shared:
            return
        if is_foreign(status, is_site=folder.is_site):
            raise BadEntry(Reason.OWNER, f"{path.name} belongs to user {status.st_uid}")
        if is_open_to_others(status):
            raise BadEntry(Reason.MODE, f"{path.name} can be written to by others")

    def _renew(self, path: Path, status: os.stat_result) -> None:
        """Note that an entry was used; eviction goes by that."""
        # A stamp of the future is renewed too: the clock was wrong then, or is now.
        if not self.folder.is_site and abs(time.time() - status.st_mtime) > _RENEW_AFTER_S:
            with contextlib.suppress(OSError):  # evicted meanwhile, or a folder for reading
                os.utime(path)

    # ------------------------------------------------------------------ writing

    def write(self, key: Key, sections: Mapping[str, bytes]) -> int:
        """Write an entry, over one that is there; return its bytes.

        Raises `BadEntry` if it is too large to be read again, `CacheError` if the folder has become
        unsafe, `OSError` if it cannot be written; then what was there before is there still.
        """
        data = encode(key.encoded, sections, self._secret)
        if len(data) > MAX_ENTRY_BYTES:
            raise BadEntry(Reason.SIZE, f"{len(data)} bytes; an entry has {MAX_ENTRY_BYTES}")
        self.folder.make()
        write_whole(self.path_of(key), data, self.folder.file_mode)
        return len(data)

    # ------------------------------------------------------------- housekeeping

    def listed(self) -> list[Listed]:
        """Return every entry, unread; those that vanish meanwhile are left out."""
        return [e for e in self._scan(self.folder.entries) if re.fullmatch(_NAME, e.path.name)]

    def unfinished(self) -> list[Listed]:
        """Return files that writers have begun and not finished; some may be at it now."""
        return [e for e in self._scan(self.folder.entries) if e.path.name.startswith(TEMPORARY)]

    def quarantined(self) -> list[Listed]:
        """Return the damaged files that were put aside."""
        return list(self._scan(self.folder.quarantine))

    @staticmethod
    def _scan(folder: Path) -> Iterator[Listed]:
        try:
            with os.scandir(folder) as files:
                for found in files:
                    with contextlib.suppress(OSError):
                        status = found.stat(follow_symlinks=False)
                        yield Listed(Path(found.path), status.st_size, status.st_mtime)
        except OSError as error:
            if not isinstance(error, FileNotFoundError):
                logger.debug("cache: %s cannot be listed: %s", folder, error)

    def remove(self, path: Path) -> bool:
        """Remove a file; say whether it is gone by our doing."""
        try:
            path.unlink()
        except OSError as error:  # gone already; open elsewhere, on Windows; a folder for reading
            logger.debug("cache: %s cannot be removed: %s", path, error)
            return False
        return True

    def put_aside(self, path: Path, reason: Reason) -> None:
        """Take a damaged file out of the way, and keep it for a while for somebody to look at."""
        quarantine = self.folder.quarantine
        try:
            self.folder.make_within(quarantine)
            # A second file of the same name is damaged in the same way, most likely.
            os.replace(path, quarantine / f"{path.name}.{reason}")
        except OSError as error:
            logger.debug("cache: %s cannot be put aside: %s", path, error)
            self.remove(path)
            return
        kept = sorted(self.quarantined(), key=lambda each: each.used_s)
        for old in kept[:-_MAX_QUARANTINED]:
            self.remove(old.path)


def evict(store: Store, max_bytes: int, keep: Path | None = None) -> tuple[int, int]:
    """Remove abandoned files, and the entries that were not used for longest, until the rest fits.

    The order is that of the files' time stamps, which reading renews. Everything is looked at anew
    each time, so there is no count that could be wrong; whatever clocks do, the worst that can come
    of it is that an entry goes too early. Removing an entry that another process is reading does no
    harm: it has the file open and reads it to its end, or finds none.

    `keep` is an entry that stays: the one just written. Return how many entries were removed, and
    their bytes.
    """
    now = time.time()
    for file in store.unfinished():
        # Either way from now: a writer that is alive finds its file gone and writes no entry.
        if abs(now - file.used_s) > _ABANDONED_AFTER_S:
            store.remove(file.path)
    entries = store.listed()
    aside = store.quarantined()
    total = sum(e.nbytes for e in entries) + sum(q.nbytes for q in aside)
    if total <= max_bytes:
        return 0, 0
    for file in aside:
        if store.remove(file.path):
            total -= file.nbytes
    # What claims to be of the future goes first; in use, it gets a stamp of now.
    entries.sort(key=lambda e: (e.used_s <= now + _FUTURE_S, e.used_s))
    count = nbytes = 0
    for entry in entries:
        if total <= max_bytes * _REST:
            break
        if entry.path != keep:
            # Another process may have removed it; it is gone all the same.
            removed = store.remove(entry.path)
            total -= entry.nbytes
            count += removed
            nbytes += entry.nbytes * removed
    return count, nbytes
