"""Trials with damaged entries: what came of each, counted for the table at the end of a run.

An entry of these tests says itself whether it is right: the first section names its key and holds
random bytes, the second is the digest of the first. Whoever pairs one writer's code with another's
metadata, or hands out the entry of another key, is found out.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any

from kerneldsl.cache.disk import DiskCache
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry
from kerneldsl.cache.store import Store

__all__ = ["FACTOR", "PROPERTY", "Trials", "key_of", "sections_of"]

#: How much longer than in the ordinary tests; ``make faults`` sets it.
FACTOR = int(os.environ.get("KERNELDSL_FAULTS", "1"))
#: Name of the property by which a test hands its counts to the report.
PROPERTY = "cache trials"


def key_of(number: int) -> Key:
    return Key({"kernel": f"k{number}", "arch": "sm_90"})


def sections_of(key: Key, nbytes: int = 64) -> dict[str, bytes]:
    code = key.digest.encode() + os.urandom(nbytes)
    return {"ptx": code, "metadata": hashlib.sha256(code).digest()}


def is_right(key: Key, sections: Mapping[str, bytes]) -> bool:
    code = sections.get("ptx", b"")
    return (
        set(sections) == {"ptx", "metadata"}
        and code.startswith(key.digest.encode())
        and hashlib.sha256(code).digest() == sections["metadata"]
    )


class Trials:
    """The outcomes of one test."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def read(self, store: Store, key: Key) -> str:
        """Read an entry and note what came of it."""
        try:
            entry, _ = store.read(key)
        except BadEntry as bad:
            return self.note("miss", bad.reason.value)
        except Exception as error:  # noqa: BLE001 -- that is what is looked for
            return self.note("crash", repr(error))
        return self.note("right" if is_right(key, entry.sections) else "wrong")

    def look_up(self, cache: DiskCache, key: Key) -> str:
        """The same through the cache of a process."""
        try:
            found = cache.look_up(key)
        except Exception as error:  # noqa: BLE001
            return self.note("crash", repr(error))
        if found is None:
            return self.note("miss", "")
        return self.note("right" if is_right(key, found.entry.sections) else "wrong")

    def note(self, outcome: str, detail: str = "") -> str:
        self.counts[outcome] += 1
        return f"{outcome}: {detail}" if detail else outcome

    def add(self, counts: Mapping[str, int]) -> None:
        """Take up what a child process counted."""
        self.counts.update(counts)

    def check(self, *, at_least: int = 1) -> None:
        assert sum(self.counts.values()) >= at_least, self.counts
        assert self.counts["wrong"] == 0, self.counts
        assert self.counts["crash"] == 0, self.counts

    def row(self) -> dict[str, Any]:
        return {name: self.counts[name] for name in ("right", "miss", "wrong", "crash")}
