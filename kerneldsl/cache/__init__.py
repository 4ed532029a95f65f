"""Disk cache of compiled kernels, kept between processes: ``kd.cache``.

One file an entry, which says what it is of and whether it is whole; see
:mod:`~kerneldsl.cache.entry` for the format and ``docs/cache.md`` for what is promised. Here is
what a person or a script does with the cache as a whole; below it, from the outside inwards,
:mod:`~kerneldsl.cache.disk` (the two folders of a process), :mod:`~kerneldsl.cache.store` (one
folder), :mod:`~kerneldsl.cache.files` (one file).
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kerneldsl.cache.disk import counters, disk_cache, user_folder
from kerneldsl.cache.settings import read_secret, read_settings, read_size
from kerneldsl.cache.store import Store
from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import as_int, safe_repr

if TYPE_CHECKING:  # a launch imports this module, and needs neither lists nor archives
    from kerneldsl.cache.inventory import EntryInfo, Verification
    from kerneldsl.cache.statistics import CacheStatistics
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
    """Return the folder of the cache; it need not be there yet.

    Raises
    ------
    CacheError
        If neither ``KERNELDSL_CACHE_DIR`` nor the system says where.
    """
    return user_folder(read_settings()).path


def is_on() -> bool:
    """Return whether the cache is in use: ``KERNELDSL_CACHE`` allows it, the folder is safe."""
    return disk_cache().is_on


def stats() -> CacheStatistics:
    """Return what the cache did in this process: hits, misses by reason, bytes, time saved."""
    return counters.read()


def reset_stats() -> None:
    """Count from zero."""
    counters.reset()


def entries() -> tuple[EntryInfo, ...]:
    """Return every entry that can be used, the user's first, the one used last first.

    Raises
    ------
    CacheError
        If the folder is not safe.
    """
    from kerneldsl.cache.inventory import list_entries

    return tuple(info for store in _stores() for info in list_entries(store))


def clear() -> int:
    """Remove every entry of the user's folder, and what was put aside; return how many entries.

    Kernels that this process has compiled or loaded stay.

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
    """Remove what was not used for longest, until the rest fits; return how many entries.

    Parameters
    ----------
    max_bytes : int or str, optional
        What may stay, such as ``"200M"``; by default ``KERNELDSL_CACHE_SIZE``.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `max_bytes` is no number of bytes, or a negative one.
    CacheError
        If a text names no size, or the folder is not safe.
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
    """Read every entry of the user's folder, and put damaged ones aside.

    Raises
    ------
    CacheError
        If the folder is not safe.
    """
    from kerneldsl.cache.inventory import verify_store

    return verify_store(_user())


def export(file: str | os.PathLike[str]) -> int:
    """Write every entry into one file, for another machine; return how many.

    Parameters
    ----------
    file : path
        A tar archive, written anew. With ``KERNELDSL_CACHE_KEY_FILE`` what is in it is signed.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `file` is no path, or is a folder or file that is no archive.
    CacheError
        If the folder is not safe, or the file cannot be written.
    """
    from kerneldsl.cache.transfer import export_entries

    return export_entries(_stores(), file, read_secret(read_settings().key_file))


def import_(file: str | os.PathLike[str]) -> Imported:
    """Take the entries of a file that :func:`export` made, as far as ``KERNELDSL_CACHE_SIZE`` goes.

    What is imported is run later: take files from people whose programs you would run. With
    ``KERNELDSL_CACHE_KEY_FILE`` only entries signed with that key are taken.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If `file` is no path.
    CacheError
        If it is no such file, the folder is not safe, the file cannot be read, or an entry cannot
        be written.
    """
    from kerneldsl.cache.transfer import import_entries

    settings = read_settings()
    secret = read_secret(settings.key_file)
    return import_entries(_user(), file, secret, read_size(settings.size))


def __dir__() -> list[str]:
    # What this file itself imports is nobody's to use.
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})


def _user() -> Store:
    settings = read_settings()
    folder = user_folder(settings)
    folder.check()
    return Store(folder, read_secret(settings.key_file))


def _stores() -> list[Store]:
    site = disk_cache().site
    return [_user(), *([site] if site is not None else [])]
