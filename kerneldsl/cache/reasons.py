"""Reasons for a miss."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["BadEntry", "Reason", "UncacheableError"]


class Reason(StrEnum):
    """The reasons for a miss; :func:`kerneldsl.cache.stats` counts by them."""

    #: No such entry exists: the ordinary miss.
    ABSENT = "absent"
    #: The file is too short or too long.
    LENGTH = "length"
    #: The file is no entry of a cache.
    MAGIC = "magic"
    #: Written by a version of kerneldsl with another format of entries.
    SCHEMA = "schema"
    #: The contents are not those that were written.
    CHECKSUM = "checksum"
    #: The checksum is right and the contents make no sense.
    STRUCTURE = "structure"
    #: The entry is of another key: the file was renamed, or two keys have one digest.
    KEY = "key"
    #: A secret is set, and the entry is not signed with it.
    SIGNATURE = "signature"
    #: A symbolic link, a folder, a pipe: no plain file.
    KIND = "kind"
    #: The file belongs to another user.
    OWNER = "owner"
    #: Others may write to the file.
    MODE = "mode"
    #: The file is larger than any entry.
    SIZE = "size"
    #: The system could not read it.
    IO = "io"
    #: The entry is sound, but this process cannot use its contents.
    UNUSABLE = "unusable"
    #: Code that is never kept, of kernels in debug mode say.
    UNCACHEABLE = "uncacheable"

    @property
    def is_damage(self) -> bool:
        """True if the file is useless to anybody, so that it is put aside."""
        return self in _DAMAGE


_DAMAGE = frozenset(
    {
        Reason.LENGTH,
        Reason.MAGIC,
        Reason.CHECKSUM,
        Reason.STRUCTURE,
        Reason.KEY,
        Reason.KIND,
        Reason.SIZE,
    }
)


class BadEntry(Exception):
    """An entry that cannot be used; it never leaves this package."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class UncacheableError(Exception):
    """Code that is not cached, because not everything that it depends on can be determined.

    It never leaves the package.
    """
