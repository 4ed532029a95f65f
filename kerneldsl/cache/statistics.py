"""Statistics of the cache in a process: the value that :func:`kerneldsl.cache.stats` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kerneldsl.utilities.formatting import format_bytes, format_duration, html_table, text_table

__all__ = ["CacheStatistics"]


@dataclass(frozen=True, slots=True, repr=False)
class CacheStatistics:
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

    def to_dict(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
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
