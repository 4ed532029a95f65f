"""Counts of what the cache does in this process."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kerneldsl.cache.reasons import Reason
from kerneldsl.utilities.locks import ForkSafeLock

if TYPE_CHECKING:
    from kerneldsl.cache.statistics import CacheStatistics

__all__ = ["Counters"]


class Counters:
    """Counts that every thread may add to."""

    def __init__(self) -> None:
        self._lock = ForkSafeLock()
        self.reset()

    def reset(self) -> None:
        """Count from zero."""
        with self._lock:
            self._misses: Counter[str] = Counter()
            self._counts: Counter[str] = Counter()
            self._saved_s = 0.0

    def hit(self, nbytes: int) -> None:
        """Count an entry that was found."""
        with self._lock:
            self._counts.update(hits=1, read_bytes=nbytes)

    def saved(self, seconds: float) -> None:
        """Add time that was saved."""
        with self._lock:
            self._saved_s += seconds

    def missed(self, reason: Reason) -> None:
        """Count a look that found nothing to use."""
        with self._lock:
            self._misses[reason.value] += 1

    def take_back_hit(self, nbytes: int) -> None:
        """Count what was found as not usable after all."""
        with self._lock:
            self._counts.update(hits=-1, read_bytes=-nbytes)
            self._misses[Reason.UNUSABLE.value] += 1

    def wrote(self, nbytes: int) -> None:
        """Count an entry that was written."""
        with self._lock:
            self._counts.update(writes=1, written_bytes=nbytes)

    def failed_to_write(self) -> None:
        """Count one that could not be."""
        with self._lock:
            self._counts.update(failed_writes=1)

    def evicted(self, count: int) -> None:
        """Count entries that were removed to make room."""
        with self._lock:
            self._counts.update(evicted=count)

    def read(self) -> CacheStatistics:
        """Return the counts as they are now."""
        from kerneldsl.cache.statistics import CacheStatistics

        with self._lock:
            counts = {name: count for name, count in self._counts.items() if count}
            return CacheStatistics(
                hits=counts.pop("hits", 0),
                misses=dict(self._misses),
                saved_s=self._saved_s,
                **counts,
            )
