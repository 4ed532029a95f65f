"""Diagnosis of a miss: the entry whose key differs least, and its differences."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from kerneldsl.cache.inventory import EntryInfo
from kerneldsl.cache.key import Key
from kerneldsl.utilities.formatting import AsDict

__all__ = ["Difference", "Nearest", "find_nearest"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of two keys that is not the same."""

    #: Its name.
    component: str
    #: What it is in the key that was asked for and in the entry; ``None`` where it has no such
    #: part.
    wanted: str | None
    found: str | None


@dataclass(frozen=True, slots=True)
class Nearest(AsDict):
    """The entry that comes nearest to a key."""

    #: Of the entry's key.
    digest: str
    #: Where the two differ; empty for the entry that was asked for.
    differences: tuple[Difference, ...]


def find_nearest(
    key: Key, entries: Iterable[EntryInfo], without: Collection[str] = ()
) -> Nearest | None:
    """Find the entry that differs in the fewest parts; the one used last, of several.

    Parts in `without` are not compared, with all that they consist of: ``"mapping"`` stands for
    ``"mapping.items"`` too.
    """
    best: Nearest | None = None
    for entry in entries:
        found = _compare(key, entry, without)
        if best is None or len(found.differences) < len(best.differences):
            best = found
    return best


def _compare(key: Key, entry: EntryInfo, without: Collection[str]) -> Nearest:
    names = sorted({*key.components, *entry.components})
    pairs = ((name, key.components.get(name), entry.components.get(name)) for name in names)
    different = tuple(
        Difference(*pair)
        for pair in pairs
        if pair[1] != pair[2] and pair[0].partition(".")[0] not in without
    )
    return Nearest(entry.digest, different)
