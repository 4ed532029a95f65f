"""The bound of a folder's size: what is written is counted, and room is made where it is full.

To list a folder takes a second where it holds tens of thousands of entries, so a write adds to an
estimate that is kept beside them, and the folder is listed where the estimate says that it is full,
once a day, and where there is no estimate. A write is counted before it is made, so a process that
ends in between leaves the estimate too high; then the folder is listed early, and the estimate is
right again. It is too low only by what other programs put there, and by what was counted without a
lock where there are none; both for a day.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kerneldsl.cache.directory import Directory, check_plain
from kerneldsl.cache.files import read_all
from kerneldsl.cache.folders import ENTRIES, STATE
from kerneldsl.cache.key import Key
from kerneldsl.cache.locks import size_locked
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.store import Store
from kerneldsl.errors import CacheError
from kerneldsl.utilities.environment import logger

__all__ = ["evict", "make_room", "write_within"]

_FILE = "size"
_TEXT = rb"(\d{1,19}) (\d{1,19}) (\d{1,19})\n"
_MAX_TEXT_BYTES = 64
#: An estimate is believed for so long, in seconds; either way from now, since clocks jump.
_BELIEVED_S = 86400.0
#: A file that nobody has finished for so long, in seconds, was left by a process that ended.
_ABANDONED_AFTER_S = 3600.0
#: A time stamp so far ahead, in seconds, comes from a clock that was wrong.
_FUTURE_S = 3600.0
#: Once the cache is full, this share of the cap is left, so that the next writes find room.
_REST = 0.9


class _Estimate(NamedTuple):
    """What a folder holds, without having looked."""

    #: Bytes of entries, and of what was put aside.
    nbytes: int
    #: Bytes that were ever added: what is added while somebody lists the folder.
    added: int
    #: When the folder was listed, in seconds since the epoch.
    listed_s: int


class Evicted(NamedTuple):
    """How many entries were removed, their bytes, and the bytes that are left."""

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
    known = _count(store, key, len(data))
    store.write_encoded(key, data)
    is_stale = known is None or abs(time.time() - known.listed_s) > _BELIEVED_S
    if known is None or is_stale or known.nbytes > max_bytes:
        return len(data), make_room(store, max_bytes, keep=store.path_of(key)).entries
    return len(data), 0


def make_room(store: Store, max_bytes: int, keep: Path | None = None) -> Evicted:
    """List the folder, remove as :func:`evict` does, and note what is left."""
    before = _read_estimate(store)
    evicted = evict(store, max_bytes, keep)
    try:
        with store.folder.opened(STATE) as state, size_locked(store.folder):
            now = _read(state)
            added = 0 if now is None else now.added
            # What others have added meanwhile may not have been seen.
            unseen = max(0, added - (0 if before is None else before.added))
            _write(store, state, _Estimate(evicted.left + unseen, added, int(time.time())))
    except (OSError, CacheError) as error:
        logger.debug("cache: the size of %s is not noted: %s", store.folder.path, error)
    return evicted


def _count(store: Store, key: Key, nbytes: int) -> _Estimate | None:
    """Count an entry that is about to be written; ``None`` where there is no estimate."""
    folder = store.folder
    try:
        with folder.opened(ENTRIES, make=True) as entries:
            grows = nbytes - entries.size_of(store.path_of(key).name)
        with folder.opened(STATE, make=True) as state, size_locked(folder):
            known = _read(state)
            if known is not None:
                known = _Estimate(
                    max(0, known.nbytes + grows), known.added + max(0, grows), known.listed_s
                )
                _write(store, state, known)
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
    """Read the estimate; ``None`` for what is none."""
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


def _write(store: Store, state: Directory, estimate: _Estimate) -> None:
    # Put in the place of the file, never into it: it might be a hard link to another one.
    text = b"%d %d %d\n" % estimate
    state.write(_FILE, text, store.folder.file_mode, is_forced=False)


def evict(store: Store, max_bytes: int, keep: Path | None = None) -> Evicted:
    """Remove abandoned files, and the entries that were not used for longest, until the rest fits.

    The order is that of the files' time stamps, which reading renews. Everything is looked at anew;
    whatever clocks do, the worst that can come of it is that an entry goes too early. Removing an
    entry that another process is reading does no harm: it has the file open and reads it to its
    end, or finds none.

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
    # What claims to be of the future goes first; in use, it gets a stamp of now.
    entries.sort(key=lambda e: (e.used_s <= now + _FUTURE_S, e.used_s))
    chosen = []
    for entry in entries:
        if total <= max_bytes * _REST:
            break
        if entry.path != keep:
            chosen.append(entry)
            total -= entry.nbytes
    removed, kept = store.remove(chosen)
    # What another process has removed is in neither, and gone all the same.
    left = total + sum(file.nbytes for file in kept)
    return Evicted(len(removed), sum(file.nbytes for file in removed), left)
