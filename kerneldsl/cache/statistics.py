"""What the cache did in this process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kerneldsl.cache.reasons import Reason
from kerneldsl.locks import ForkSafeLock
from kerneldsl.tables import format_bytes, format_duration, html_table, text_table

__all__ = ["CacheStatistics", "Counters"]


@dataclass(frozen=True, slots=True, repr=False)
class CacheStatistics:
    """What the cache did since the process began, or since the counts were reset.

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

    def to_dict(self) -> dict[str, Any]:
        """The fields, for JSON."""
        return asdict(self)

    def _rows(self) -> list[tuple[str, object]]:
        return [
            ("hits", self.hits),
            *((f"misses: {reason}", count) for reason, count in sorted(self.misses.items())),
            ("writes", self.writes),
            ("failed writes", self.failed_writes),
            ("evicted", self.evicted),
            ("read", format_bytes(self.read_bytes)),
            ("written", format_bytes(self.written_bytes)),
            ("time saved", format_duration(max(self.saved_s, 0.0) * 1e9)),
        ]

    def __repr__(self) -> str:
        return text_table(("cache", ""), self._rows())

    def _repr_html_(self) -> str:
        return html_table(("cache", ""), self._rows())


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
        """The counts as they are now."""
        with self._lock:
            counts = {name: count for name, count in self._counts.items() if count}
            return CacheStatistics(
                hits=counts.pop("hits", 0),
                misses=dict(self._misses),
                saved_s=self._saved_s,
                **counts,
            )
