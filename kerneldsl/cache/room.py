"""The bound of a folder's size: writes are counted, and a full folder is pruned.

Listing a folder of tens of thousands of entries takes a second. So a write adds to an estimate,
which is stored next to the entries. The folder is listed if the estimate exceeds the bound, once a
day, and if there is no estimate. A write is counted before it is made, even if it replaces an
entry. So a process that ends in between leaves the estimate too high. Then the folder is listed
early, which corrects the estimate. It is too low only by files of other programs, and by writes
that were counted without a lock; both for at most a day.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from kerneldsl.cache.directory import Directory, check_plain, read_all
from kerneldsl.cache.folders import STATE, Folder
from kerneldsl.cache.key import Key
from kerneldsl.cache.locks import size_locked
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.store import Store
from kerneldsl.errors import CacheError
from kerneldsl.utilities.environment import logger

__all__ = ["evict", "evict_and_note", "write_within"]

_FILE = "size"
_TEXT = rb"(\d{1,19}) (\d{1,19}) (\d{1,19})\n"
_MAX_TEXT_BYTES = 64
#: Validity of an estimate in seconds, before and after now, since clocks may jump.
_BELIEVED_S = 86400.0
#: A file that was unfinished for this time, in seconds, was left by a process that ended.
_ABANDONED_AFTER_S = 3600.0
#: A time stamp this far in the future, in seconds, comes from a wrong clock.
_FUTURE_S = 3600.0
#: Share of the bound that remains after the cache was full, so that there is room for next writes.
_REST = 0.9
#: Share of the bound above which a folder counts as full: otherwise each write would list it.
_NEARLY = 0.95


class _Estimate(NamedTuple):
    """Estimate of what a folder holds, without a look at it."""

    #: Bytes of the folder when it was listed, and of later writes.
    nbytes: int
    #: Bytes that were ever written: those of files that somebody who lists may not have seen.
    written: int
    #: Time of the listing of the folder, in nanoseconds since the epoch.
    listed_ns: int


class Evicted(NamedTuple):
    """Count of removed entries, their bytes, and the bytes that are left."""

    entries: int
    nbytes: int
    left: int


def write_within(
    store: Store, key: Key, sections: Mapping[str, bytes], max_bytes: int
) -> tuple[int, int]:
    """Write an entry, and make room for it.

    Return its bytes, and how many entries were removed. Raises as :meth:`Store.write`, and
    `BadEntry` for an entry that is larger than `max_bytes`.
    """
    data = store.encoded(key, sections)
    if len(data) > max_bytes:
        raise BadEntry(Reason.SIZE, f"{len(data)} bytes, of {max_bytes} in all")
    before = _change(store.folder, lambda known: known._replace(nbytes=known.nbytes + len(data)))

    def note_written(known: _Estimate) -> _Estimate:
        # Another process may have listed the folder since then, before the file existed.
        is_same = before is not None and known.listed_ns == before.listed_ns
        nbytes = known.nbytes + (0 if is_same else len(data))
        return known._replace(nbytes=nbytes, written=known.written + len(data))

    store.write_encoded(key, data)
    after = _change(store.folder, note_written)
    if before is None or after is None or _is_old(after) or after.nbytes > max_bytes:
        nearly = int(max_bytes * _NEARLY)
        return len(data), evict_and_note(store, nearly, keep=store.path_of(key)).entries
    return len(data), 0


def _is_old(known: _Estimate) -> bool:
    return abs(time.time() - known.listed_ns / 1e9) > _BELIEVED_S


def evict_and_note(store: Store, max_bytes: int, keep: Path | None = None) -> Evicted:
    """Remove entries as :func:`evict` does, and note the remaining size."""
    before = _read_estimate(store)
    evicted = evict(store, max_bytes, keep)
    try:
        with store.folder.opened(STATE) as state, size_locked(store.folder):
            now = _read(state)
            written = 0 if now is None else now.written
            unseen = max(0, written - (0 if before is None else before.written))
            noted = _Estimate(evicted.left + unseen, written, int(time.time() * 1e9))
            _write(store.folder, state, noted)
    except (OSError, CacheError) as error:
        logger.debug("cache: the size of %s is not noted: %s", store.folder.path, error)
    return evicted


def _change(folder: Folder, change: Callable[[_Estimate], _Estimate]) -> _Estimate | None:
    """Replace the estimate, and return it; ``None`` if there is none."""
    try:
        with folder.opened(STATE, make=True) as state, size_locked(folder):
            known = _read(state)
            if known is not None:
                known = change(known)
                _write(folder, state, known)
            return known
    except (OSError, CacheError) as error:
        logger.debug("cache: %s is listed at each write: %s", folder.path, error)
        return None


def _read_estimate(store: Store) -> _Estimate | None:
    try:
        with store.folder.opened(STATE, make=True) as state:
            return _read(state)
    except (OSError, CacheError):
        return None


def _read(state: Directory) -> _Estimate | None:
    """Read the estimate; ``None`` if the file is invalid."""
    try:
        descriptor = state.open_file(_FILE, os.O_RDONLY)
    except OSError:
        return None
    try:
        check_plain(descriptor, _FILE)
        text = read_all(descriptor, _MAX_TEXT_BYTES, _MAX_TEXT_BYTES)
    except (OSError, BadEntry):
        return None
    finally:
        os.close(descriptor)
    match = re.fullmatch(_TEXT, text)
    return None if match is None else _Estimate(*map(int, match.groups()))


def _write(folder: Folder, state: Directory, estimate: _Estimate) -> None:
    # Put in the place of the file, never into it: it might be a hard link to another one.
    state.write(_FILE, b"%d %d %d\n" % estimate, folder.file_mode, is_forced=False)


def evict(store: Store, max_bytes: int, keep: Path | None = None) -> Evicted:
    """Remove abandoned files, and the entries that were not used for longest, until the rest fits.

    The order is that of the files' time stamps, which reading renews. The folder is listed again. A
    wrong clock can only cause an entry to be removed too early. An entry may be removed while
    another process reads it: that process has the file open and reads it to its end, or finds none.

    `keep` is an entry that stays: the one just written.
    """
    now = time.time()
    # Either way from now: a writer that is alive finds its file gone and writes no entry.
    store.remove(f for f in store.unfinished() if abs(now - f.used_s) > _ABANDONED_AFTER_S)
    entries = store.listed()
    aside = store.quarantined()
    total = sum(e.nbytes for e in entries) + sum(q.nbytes for q in aside)
    if total <= max_bytes:
        return Evicted(0, 0, total)
    total -= sum(file.nbytes for file in store.remove(aside)[0])
    # Entries with times in the future are removed first; an entry in use gets the present time.
    entries.sort(key=lambda e: (e.used_s <= now + _FUTURE_S, e.used_s))
    chosen = []
    for entry in entries:
        if total <= max_bytes * _REST:
            break
        if entry.path != keep:
            chosen.append(entry)
            total -= entry.nbytes
    removed, kept = store.remove(chosen)
    # Files that another process has removed are in neither list.
    left = total + sum(file.nbytes for file in kept)
    return Evicted(len(removed), sum(file.nbytes for file in removed), left)
