"""Values that were computed, from many files or from none, remembered while files stay the same.

To read a toolkit's headers takes a tenth of a second. To see that none of them has changed takes a
few milliseconds. So an entry of the cache has the value, and the paths and status
of everything that it was computed from. It is used only if each status is the same
(:func:`kerneldsl.cache.toolchain.status_of`).

Changes within one tick of the system's clock have equal times. So nothing is remembered that had
changed shortly before it was read.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import NamedTuple

from kerneldsl.cache.disk import DiskCache, disk_cache
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry
from kerneldsl.cache.toolchain import status_of
from kerneldsl.errors import CacheError

__all__ = ["Computed", "checking_files_once", "rechecking_files", "remembered"]

#: Least age of a change before the read, in nanoseconds, for a value to be remembered. File systems
#: have times with a resolution of up to two seconds.
_SETTLED_NS = 3_000_000_000
_VALUE, _PATHS, _STATUS, _MADE = "value", "paths", "status", "made"


#: Values that were found in this context, by the digests of their keys.
_looked: ContextVar[dict[str, str] | None] = ContextVar("looked", default=None)


class Computed(NamedTuple):
    """A value, and what it was computed from."""

    value: str
    #: Files that were read, and folders that were listed.
    paths: Iterable[str]
    #: Module and name of the kernel that it is about, for lists of entries.
    kernel: str = ""


def remembered(about: Mapping[str, str], compute: Callable[[], Computed]) -> str:
    """Return what `compute` returns, or returned in another process for the same files.

    - `about`: everything that the value depends on but the files: names and values, as in a key.
    - `compute`: computes the value. What it raises is passed on, and is not remembered.
    - returns: the value.
    """
    looked, key = _looked.get(), Key({"entry": "files", **about})
    found = None if looked is None else looked.get(key.digest)
    if found is None:
        found = _find(key, compute)
        if looked is not None:
            looked[key.digest] = found
    return found


@contextlib.contextmanager
def checking_files_once() -> Iterator[None]:
    """Look at the files of a value once in this context.

    A launch needs several keys, of the code and of a plan that was measured with it. What it
    compiles is stored under a key that is computed afterwards (:func:`rechecking_files`).
    """
    token = _looked.set({})
    try:
        yield
    finally:
        _looked.reset(token)


@contextlib.contextmanager
def rechecking_files() -> Iterator[None]:
    """Check all files again in this context."""
    token = _looked.set(None)
    try:
        yield
    finally:
        _looked.reset(token)


def _find(key: Key, compute: Callable[[], Computed]) -> str:
    cache = disk_cache()
    found = _read(cache, key)
    if found is not None:
        return found
    started_ns = time.time_ns()
    computed = compute()
    paths = sorted(set(computed.paths))
    status = status_of(paths, before_ns=started_ns - _SETTLED_NS)
    if status is not None:
        sections = {
            _VALUE: computed.value.encode(),
            _PATHS: b"\0".join(map(os.fsencode, paths)),
            _STATUS: status,
        }
        if computed.kernel:
            sections[_MADE] = json.dumps({"kernel": computed.kernel}).encode()
        _write(cache, key, sections)
    return computed.value


def _read(cache: DiskCache, key: Key) -> str | None:
    if cache.user is None:
        return None
    try:
        sections = cache.user.read(key)[0].sections
        paths = os.fsdecode(sections[_PATHS]).split("\0") if sections[_PATHS] else []
        if status_of(paths) != sections[_STATUS]:
            return None
        return sections[_VALUE].decode()
    except (BadEntry, LookupError, ValueError):
        return None


def _write(cache: DiskCache, key: Key, sections: Mapping[str, bytes]) -> None:
    if cache.user is None:
        return
    from kerneldsl.cache.room import write_within  # a warm start writes nothing

    # The code that the value is wanted for is written next, and a failure is reported then.
    with contextlib.suppress(OSError, CacheError, BadEntry):
        write_within(cache.user, key, sections, cache.max_bytes)
