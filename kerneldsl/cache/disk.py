"""The cache of this process, and its statistics: the read-only folder first, then the user's own.

This is what the rest of the package looks things up in. It never raises for anything that is wrong
with a disk, a folder or an entry: the worst answer is that there is none.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import field
from typing import NamedTuple

from kerneldsl.cache.entry import Entry
from kerneldsl.cache.folders import Folder
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.settings import NAMES, Settings, read_secret, read_settings, read_size
from kerneldsl.cache.store import Store
from kerneldsl.errors import CacheError, CacheWarning
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.environment import cache_folder, logger, named_path, was_reported
from kerneldsl.utilities.formatting import AsDict, AsTable, format_bytes, format_duration
from kerneldsl.utilities.locks import ForkSafeLock, OnceTable
from kerneldsl.utilities.tracebacks import warn_user

__all__ = [
    "CacheStatistics",
    "Counters",
    "DiskCache",
    "Found",
    "counters",
    "disk_cache",
    "user_folder",
]


class Counters:
    """Counts of what the cache does in this process, to which every thread may add."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self.reset()

    def reset(self) -> None:
        """Count from zero."""
        with self._lock:
            self._misses: Counter[str] = Counter()
            self._counts: Counter[str] = Counter()
            self._saved_s = 0.0

    def add(self, **counts: int) -> None:
        """Add to fields of `CacheStatistics`."""
        with self._lock:
            self._counts.update(counts)

    def saved(self, seconds: float) -> None:
        """Add time that was saved."""
        with self._lock:
            self._saved_s += seconds

    def count_miss(self, reason: Reason) -> None:
        """Count a look that found nothing to use."""
        with self._lock:
            self._misses[reason.value] += 1

    def read(self) -> CacheStatistics:
        """Return the counts as they are now."""
        with self._lock:
            counts = {name: count for name, count in self._counts.items() if count}
            return CacheStatistics(
                hits=counts.pop("hits", 0),
                misses=dict(self._misses),
                saved_s=self._saved_s,
                **counts,
            )


#: Counts of this process over all folders.
counters = Counters()


class Found(NamedTuple):
    """An entry that was looked up."""

    entry: Entry
    nbytes: int
    store: Store


class DiskCache:
    """One or two folders with common settings."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: The folder that is written to, unless that was refused, and the one that is only read.
        self.user: Store | None = None
        self.site: Store | None = None
        #: Most bytes of all entries in `user`.
        self.max_bytes = 0
        self._has_warned = False
        if not settings.is_on:
            return
        try:
            self.max_bytes = read_size(settings.size)
            secret = read_secret(settings.key_file)
        except CacheError as error:
            self._warn_once(f"nothing is cached: {error}", error)
            return
        if settings.site:
            try:
                path = named_path("KERNELDSL_CACHE_SITE", settings.site)
                site = Folder(path, True, settings.is_shared)
                if site.check():
                    self.site = Store(site, secret)
            except (CacheError, OSError) as error:
                self._warn_once(f"the site's cache is ignored: {error}", error)
        try:
            user = user_folder(settings)
        # A home or working directory that is unknown, platformdirs that is missing.
        except (OSError, CacheError, ImportError) as error:
            self._warn_once(f"nothing is written to the cache: {error}", error)
            return
        try:
            user.check()
            self.user = Store(user, secret)
        except (CacheError, OSError) as error:
            self._warn_unwritable(user, error)

    @property
    def is_on(self) -> bool:
        """True if there is anything to look into or write to."""
        return self.user is not None or self.site is not None

    def look_up(self, key: Key, *, is_again: bool = False) -> Found | None:
        """Find an entry, and count that, but no second miss of one that is looked up again.

        ``None`` where no folder has one that can be used.
        """
        reason: Reason | None = None
        for store in (self.site, self.user):
            if store is None:
                continue
            try:
                entry, nbytes = store.read(key)
            except BadEntry as bad:
                # A reason other than the absence of the entry is counted.
                if reason in (None, Reason.ABSENT):
                    reason = bad.reason
            else:
                counters.add(hits=1, read_bytes=nbytes)
                return Found(entry, nbytes, store)
        if reason is not None and not is_again:
            counters.count_miss(reason)
        return None

    @contextmanager
    def compiling(
        self, key: Key, meanwhile: Callable[[], None] = lambda: None
    ) -> Iterator[Found | None]:
        """Let one process at a time compile what was not found, in a ``with`` block.

        The value is what another has compiled meanwhile. No process waits if nothing is written. A
        process that waits calls `meanwhile` first.
        """
        if self.user is None:
            yield None
            return
        from kerneldsl.cache.locks import key_locked

        with ExitStack() as lock:
            lock.enter_context(key_locked(self.user.folder, key, meanwhile))
            found = self.look_up(key, is_again=True)
            if found is not None:  # others need not wait until it is used
                lock.close()
            yield found

    def reject(self, found: Found, why: str) -> None:
        """Take back a hit: the entry is sound, and this process cannot use what it holds."""
        logger.debug("cache: an entry of %s cannot be used here: %s", found.store.folder.path, why)
        counters.add(hits=-1, read_bytes=-found.nbytes)
        counters.count_miss(Reason.UNUSABLE)

    def keep(self, key: Key, sections: Mapping[str, bytes]) -> bool:
        """Write an entry, and make room for it; say whether it is there now.

        What goes wrong is one warning for these settings.
        """
        if self.user is None:
            return False
        from kerneldsl.cache.room import write_within  # a warm start writes nothing

        try:
            written, evicted = write_within(self.user, key, sections, self.max_bytes)
            counters.add(writes=1, written_bytes=written, evicted=evicted)
        except BadEntry as bad:
            logger.debug("cache: an entry is not stored: %s", bad)
            counters.add(failed_writes=1)
            return False
        except (OSError, CacheError) as error:
            counters.add(failed_writes=1)
            self._warn_unwritable(self.user.folder, error)
            return False
        logger.debug("cache: wrote %s, %d bytes", key.digest, written)
        return True

    def _warn_unwritable(self, folder: Folder, error: CacheError | OSError) -> None:
        """Warn of a folder that is not safe, or that the system refuses."""
        if isinstance(error, OSError):
            self._warn_once(str(folder.unwritable_error(error)))
        else:
            self._warn_once(f"nothing is written to the cache: {error}")

    def _warn_once(self, text: str, error: Exception | None = None) -> None:
        logger.debug("cache: %s", text)
        if isinstance(error, CacheError) and was_reported(error):
            return
        if not self._has_warned:
            self._has_warned = True
            warn_user(text, CacheWarning)


def user_folder(settings: Settings) -> Folder:
    """Return the folder that is written to."""
    return Folder(cache_folder(), False, settings.is_shared)


#: Caches by the values of the environment variables.
_known: OnceTable[tuple[str | None, ...], DiskCache] = OnceTable()


def disk_cache() -> DiskCache:
    """Return the cache under the settings of the environment as it is now."""
    texts = tuple(map(os.environ.get, NAMES))
    return _known.get_or_make(texts, lambda: DiskCache(read_settings()))


@dataclass(frozen=True, slots=True, repr=False)
class CacheStatistics(AsTable, AsDict):
    """Counts of the cache since the process began, or since they were reset.

    Parameters
    ----------
    hits : int
        Entries that were found and used.
    misses : mapping of str to int
        Looks that found nothing to use, by reason: ``"absent"`` is the ordinary one, and
        ``"checksum"``, ``"length"``, ``"owner"`` and their like are entries that were refused.
    writes, failed_writes : int
        Entries that were written, and that could not be.
    evicted : int
        Entries that this process removed to make room.
    read_bytes, written_bytes : int
        Sizes of the entries that were used and written.
    saved_s : float
        Seconds that compiling what was found took when it was made, less what finding it took.
    """

    hits: int
    misses: Mapping[str, int] = field(default_factory=dict)
    writes: int = 0
    failed_writes: int = 0
    evicted: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    saved_s: float = 0.0

    def _table(self) -> tuple[tuple[str, str], list[tuple[str, object]]]:
        return ("cache", ""), [
            ("hits", self.hits),
            *((f"misses: {reason}", count) for reason, count in sorted(self.misses.items())),
            ("writes", self.writes),
            ("failed writes", self.failed_writes),
            ("evicted", self.evicted),
            ("read", format_bytes(self.read_bytes)),
            ("written", format_bytes(self.written_bytes)),
            ("time saved", format_duration(max(self.saved_s, 0.0) * 1e9)),
        ]
