"""Functions of :mod:`kerneldsl.cache`: the folder of the user, its entries, and statistics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kerneldsl.cache.disk import counters, disk_cache, user_folder
from kerneldsl.cache.settings import read_secret, read_settings, read_size
from kerneldsl.cache.store import Store
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import as_int, safe_repr

if TYPE_CHECKING:
    from kerneldsl.cache.disk import CacheStatistics
    from kerneldsl.cache.inventory import EntryInfo, Verification
    from kerneldsl.cache.transfer import Imported

__all__ = [
    "clear",
    "entries",
    "export",
    "import_",
    "is_on",
    "path",
    "prune",
    "reset_stats",
    "stats",
    "verify",
]


def path() -> Path:
    """Return the folder of the cache; it may not exist yet.

    Raises
    ------
    CacheError
        If neither ``KERNELDSL_CACHE_DIR`` nor the system names a folder.
    """
    return user_folder(read_settings()).path


def is_on() -> bool:
    """Return whether the cache is in use: ``KERNELDSL_CACHE`` permits it and the folder is safe."""
    return disk_cache().is_on


def stats() -> CacheStatistics:
    """Return the statistics of this process: hits, misses by reason, bytes, saved time."""
    return counters.read()


def reset_stats() -> None:
    """Reset the statistics to zero."""
    counters.reset()


def entries() -> tuple[EntryInfo, ...]:
    """Return every usable entry: the user's first, and the most recently used first.

    Raises
    ------
    CacheError
        If the folder is not safe.
    """
    from kerneldsl.cache.inventory import list_entries

    return tuple(info for store in _stores() for info in list_entries(store))


def clear() -> int:
    """Remove every entry of the user's folder and quarantined files; return the number of entries.

    Kernels that this process has compiled or loaded stay in memory.

    Raises
    ------
    CacheError
        If the folder is not safe.
    """
    from kerneldsl.cache.room import make_room

    store = _user()
    removed, _ = store.remove(store.listed())
    store.remove([*store.unfinished(), *store.quarantined()])
    if removed:
        make_room(store, read_size(""))  # notes that nothing is left
    return len(removed)


def prune(max_bytes: int | str | None = None) -> int:
    """Remove the least recently used entries until the rest fits; return the number of entries.

    Parameters
    ----------
    max_bytes : int or str, optional
        Largest size of the cache, such as ``"200M"``; by default ``KERNELDSL_CACHE_SIZE``.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `max_bytes` is not a number of bytes, or negative.
    CacheError
        If a text is not a size, or the folder is not safe.
    """
    size = as_int(max_bytes)
    if size is None:
        if max_bytes is not None and not isinstance(max_bytes, str):
            raise ArgumentTypeError(
                f"max_bytes is {safe_repr(max_bytes)}",
                value=max_bytes,
                limit="It must be a number of bytes, or text such as '200M'",
            )
        size = (
            read_size(read_settings().size)
            if max_bytes is None
            else read_size(max_bytes, "max_bytes")
        )
    if size < 0:
        raise ArgumentValueError(
            f"max_bytes is {safe_repr(size)}", value=size, limit="It must be 0 or more"
        )
    from kerneldsl.cache.room import make_room

    return make_room(_user(), size).entries


def verify() -> Verification:
    """Read every entry of the user's folder, and quarantine damaged ones.

    Raises
    ------
    CacheError
        If the folder is not safe.
    """
    from kerneldsl.cache.inventory import verify_store

    return verify_store(_user())


def export(file: str | os.PathLike[str]) -> int:
    """Write every entry into one file for another machine; return the number of entries.

    Parameters
    ----------
    file : path
        A tar archive; an existing one is overwritten. With ``KERNELDSL_CACHE_KEY_FILE`` its entries
        are signed.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `file` is not a path, or names a folder or a file that is not an archive.
    CacheError
        If the folder is not safe, or the file cannot be written.
    """
    from kerneldsl.cache.transfer import export_entries

    return export_entries(_stores(), file, read_secret(read_settings().key_file))


def import_(file: str | os.PathLike[str]) -> Imported:
    """Import the entries of a file of :func:`export`, up to ``KERNELDSL_CACHE_SIZE``.

    Imported code is run later: import a file only if you would run a program from the same source.
    With ``KERNELDSL_CACHE_KEY_FILE`` only entries signed with that key are imported.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `file` is not a path.
    CacheError
        If it is not an archive of entries, the folder is not safe, the file cannot be read, or an
        entry cannot be written.
    """
    from kerneldsl.cache.transfer import import_entries

    settings = read_settings()
    secret = read_secret(settings.key_file)
    return import_entries(_user(), file, secret, read_size(settings.size))


def _user() -> Store:
    settings = read_settings()
    folder = user_folder(settings)
    folder.check()
    return Store(folder, read_secret(settings.key_file))


def _stores() -> list[Store]:
    site = disk_cache().site
    return [_user(), *([site] if site is not None else [])]
