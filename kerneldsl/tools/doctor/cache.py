"""The cache folder: there or to be made, writable, owned by this user, and with room.

What is read back from the cache is run, so a folder that others can write to is a problem and not
a warning, unless ``KERNELDSL_CACHE_SHARED`` and a key file say that it is shared. One that cannot
be written to only means that kernels are compiled in each process again.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kerneldsl.cache.folders import nearest_existing
from kerneldsl.cache.settings import read_settings
from kerneldsl.contract.checks import Check
from kerneldsl.errors import CacheError
from kerneldsl.utilities import environment
from kerneldsl.utilities.formatting import format_bytes

__all__ = ["check_cache_folder"]

_LITTLE_ROOM_BYTES = 256 * 2**20
_ELSEWHERE = "Set KERNELDSL_CACHE_DIR to a folder of yours that can be written to"


def check_cache_folder() -> Iterator[Check]:
    """Look at the folder, and change nothing that stays."""
    try:
        folder = environment.cache_folder()
    except ImportError as error:
        found = f"unknown where the cache folder is: {error.name} is not installed"
        remedy = f"Run: pip install {error.name}. Or: {_ELSEWHERE}"
        yield Check("cache.folder", "warning", found, remedy)
        return
    except CacheError as error:  # there is no home directory
        yield Check("cache.folder", "warning", f"there is no cache folder: {error}", _ELSEWHERE)
        return
    existing = nearest_existing(folder)
    if existing is None or not existing.is_dir():
        found = f"{folder} cannot be made: {existing or folder.anchor} is not a folder"
        yield Check("cache.folder", "warning", found, _ELSEWHERE)
        return
    refused = _why_not_writable(existing)
    if refused is not None:
        verb = "be written to" if existing == folder else "be made"
        yield Check("cache.folder", "warning", f"{folder} cannot {verb}: {refused}", _ELSEWHERE)
        return
    if existing == folder:
        yield _check_mode(folder)
    else:
        yield Check("cache.folder", "ok", f"{folder} can be made")
    yield _check_room(folder, existing)


def _why_not_writable(folder: Path) -> str | None:
    try:
        # Only writing shows: a read-only file system and a quota do not show in the mode.
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"0")
            file.flush()
    except OSError as error:
        return f"{folder}: {error.strerror or error}"
    return None


def _check_mode(folder: Path) -> Check:
    status = folder.stat()
    mode = stat.S_IMODE(status.st_mode)
    if not hasattr(os, "getuid"):  # Windows guards the user's folders by other means
        return Check("cache.folder", "ok", f"{folder} can be written to")
    if read_settings().is_shared:
        found = f"{folder} can be written to, and is shared (KERNELDSL_CACHE_SHARED): "
        return Check("cache.folder", "ok", found + "entries are signed")
    if status.st_uid != os.getuid():
        return Check(
            "cache.folder",
            "problem",
            f"{folder} belongs to user {status.st_uid}; this process runs as {os.getuid()}",
            "Set KERNELDSL_CACHE_DIR to a folder of this user: what is cached is run",
        )
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return Check(
            "cache.folder",
            "problem",
            f"{folder} can be written to by others (mode {mode:04o}), and what is cached is run",
            f"Run: chmod 700 {folder}",
        )
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        found = f"{folder} can be read by others (mode {mode:04o})"
        return Check("cache.folder", "warning", found, f"Run: chmod 700 {folder}")
    return Check("cache.folder", "ok", f"{folder} can be written to, by this user alone")


def _check_room(folder: Path, existing: Path) -> Check:
    free = shutil.disk_usage(existing).free
    found = f"{format_bytes(free)} free for {folder}"
    if free < _LITTLE_ROOM_BYTES:
        remedy = f"Free {format_bytes(_LITTLE_ROOM_BYTES)} there. Or: {_ELSEWHERE}"
        return Check("cache.space", "warning", found, remedy)
    return Check("cache.space", "ok", found)
