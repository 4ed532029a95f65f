"""Eviction of the entries that were not used for longest, when the cache is full.

The order is that of the files' time stamps, which reading renews. Everything is looked at anew each
time, so there is no count that could be wrong; whatever clocks do, the worst that can come of it is
that an entry goes too early. Removing an entry that another process is reading does no harm: it has
the file open and reads it to its end, or finds none.
"""

from __future__ import annotations

import time
from pathlib import Path

from kerneldsl.cache.store import Store

__all__ = ["evict"]

#: A file that nobody has finished for so long, in seconds, was left by a process that ended.
_ABANDONED_AFTER_S = 3600.0
#: A time stamp so far ahead, in seconds, comes from a clock that was wrong.
_FUTURE_S = 3600.0
#: Once the cache is full, this share of the cap is left, so that the next write finds room.
_REST = 0.9


def evict(store: Store, max_bytes: int, keep: Path | None = None) -> tuple[int, int]:
    """Remove abandoned files, and entries until they fit.

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
