"""Statistics of the cache in a process: the value that :func:`kerneldsl.cache.stats` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, AsTable, format_bytes, format_duration

__all__ = ["CacheStatistics"]


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
