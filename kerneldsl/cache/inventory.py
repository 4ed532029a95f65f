"""Inventory of a cache folder: the entries, the soundness of each, the nearest to a key."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from kerneldsl.cache.entry import Entry
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.store import Listed, Store
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict, text_table

__all__ = [
    "Difference",
    "EntryInfo",
    "Nearest",
    "Verification",
    "find_nearest",
    "list_entries",
    "read_entries",
    "verify_store",
]


@dataclass(frozen=True, slots=True)
class EntryInfo(AsDict):
    """One entry, as ``kerneldsl cache list`` shows it.

    Parameters
    ----------
    digest : str
        SHA-256 of its key, in hexadecimal.
    path : str
        Its file.
    nbytes : int
        Size of the file.
    used_s : float
        When it was last used or written, in seconds since the epoch.
    components : mapping of str to str
        The whole key.
    sections : mapping of str to int
        What it holds: name to bytes.
    is_signed : bool
        Whether it carries a signature.
    is_site : bool
        Whether it is in the folder that is only read.
    """

    digest: str
    path: str
    nbytes: int
    used_s: float
    components: Mapping[str, str]
    sections: Mapping[str, int]
    is_signed: bool
    is_site: bool


@dataclass(frozen=True, slots=True)
class Verification(AsDict):
    """Result of :func:`kerneldsl.cache.verify`.

    Parameters
    ----------
    sound : int
        Entries that are whole.
    refused : mapping of str to int
        Entries that cannot be used, by reason.
    quarantined : int
        Of those, the damaged ones that were taken out of the way.
    """

    sound: int
    refused: Mapping[str, int]
    quarantined: int

    def __str__(self) -> str:
        rows = [("sound", self.sound), *sorted(self.refused.items())]
        return text_table(("entries", ""), [*rows, ("quarantined", self.quarantined)])


def read_entries(store: Store) -> Iterator[tuple[Listed, Entry | BadEntry]]:
    """Return every entry of a folder with what it holds, or why it cannot be used.

    An entry counts as damaged if its name is not that of its key: no lookup finds it.
    """
    for listed in store.listed():
        try:
            entry, _ = store.read_file(listed.path)
            if _digest_of(entry) != listed.digest:
                raise BadEntry(Reason.KEY, "the name is not that of the key")
        except BadEntry as bad:
            if bad.reason is not Reason.ABSENT:  # evicted since it was listed
                yield listed, bad
        else:
            yield listed, entry


def _digest_of(entry: Entry) -> str:
    try:
        return Key.decode(entry.key).digest
    except ValueError as error:
        raise BadEntry(Reason.STRUCTURE, f"the key: {error}") from error


def list_entries(store: Store) -> list[EntryInfo]:
    """Return the entries that can be used, the one used last first."""
    found = [
        EntryInfo(
            listed.digest,
            str(listed.path),
            listed.nbytes,
            listed.used_s,
            Key.decode(entry.key).components,
            {name: len(data) for name, data in entry.sections.items()},
            entry.is_signed,
            store.folder.is_site,
        )
        for listed, entry in read_entries(store)
        if isinstance(entry, Entry)
    ]
    return sorted(found, key=lambda info: -info.used_s)


def verify_store(store: Store) -> Verification:
    """Read every entry, and put the damaged ones aside."""
    sound = quarantined = 0
    refused: Counter[str] = Counter()
    for listed, entry in read_entries(store):
        if isinstance(entry, Entry):
            sound += 1
            continue
        refused[entry.reason.value] += 1
        if entry.reason.is_damage and not store.folder.is_site:
            store.quarantine_file(listed.path, entry.reason)
            quarantined += 1
    return Verification(sound, dict(refused), quarantined)


@dataclass(frozen=True, slots=True)
class Difference:
    """One part of two keys that is not the same."""

    #: Name of the part.
    component: str
    #: Values in the requested key and in the entry's; ``None`` if the key has no such part.
    wanted: str | None
    found: str | None


@dataclass(frozen=True, slots=True)
class Nearest(AsDict):
    """The entry that comes nearest to a key."""

    #: Digest of the entry's key.
    digest: str
    #: Differences from the requested key; empty for the entry that was requested.
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
