"""Functions of :mod:`kerneldsl.cache`: the user's folder, its entries, statistics and exports."""

from __future__ import annotations

import errno
import io
import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kerneldsl.cache.directory import check_plain, write_whole
from kerneldsl.cache.disk import counters, disk_cache, user_folder
from kerneldsl.cache.entry import MAX_ENTRY_BYTES, Entry, decode, encode
from kerneldsl.cache.inventory import read_entries
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.room import write_within
from kerneldsl.cache.settings import read_secret, read_settings, read_size
from kerneldsl.cache.store import SUFFIX, Store
from kerneldsl.errors import ArgumentValueError, CacheError
from kerneldsl.errors.kernels import wrong_type, wrong_value
from kerneldsl.errors.values import as_int
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict
from kerneldsl.utilities.paths import read_path
from kerneldsl.utilities.untrusted import open_at_once

if TYPE_CHECKING:
    from kerneldsl.cache.disk import CacheStatistics
    from kerneldsl.cache.inventory import EntryInfo, Verification

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
    from kerneldsl.cache.room import evict_and_note

    store = _user()
    removed, _ = store.remove(store.listed())
    store.remove([*store.unfinished(), *store.quarantined()])
    if removed:
        evict_and_note(store, read_size(""))  # notes that nothing is left
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
            raise wrong_type(
                "max_bytes", max_bytes, "It must be a number of bytes, or text such as '200M'"
            )
        size = (
            read_size(read_settings().size)
            if max_bytes is None
            else read_size(max_bytes, "max_bytes")
        )
    if size < 0:
        raise wrong_value("max_bytes", size, "It must be 0 or more")
    from kerneldsl.cache.room import evict_and_note

    return evict_and_note(_user(), size).entries


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


# The file is a tar archive of entries. Importing never unpacks it to names of its choosing. Each
# entry is read, checked as any other, and written by this cache under the name of its key. The key
# names the architecture and versions of the code, so an entry of another one is stored and never
# used.
@dataclass(frozen=True, slots=True)
class Imported(AsDict):
    """Result of :func:`kerneldsl.cache.import_`.

    Parameters
    ----------
    imported : int
        Entries that were written.
    refused : mapping of str to int
        Members of the archive that are no entries that can be used, by reason.
    evicted : int
        Entries that were removed to make room, of those that were there and those that came.
    """

    imported: int
    refused: Mapping[str, int]
    evicted: int = 0


def export_entries(stores: list[Store], file: str | os.PathLike[str], secret: bytes | None) -> int:
    """Write every sound entry of some folders into an archive; return how many."""
    path = read_path(file)
    _check_destination(path)
    written: set[str] = set()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for store in stores:
            for listed, entry in read_entries(store):
                if not isinstance(entry, Entry) or listed.digest in written:
                    continue
                data = encode(entry.key, entry.sections, secret)
                member = tarfile.TarInfo(f"{listed.digest}{SUFFIX}")
                member.size = len(data)
                member.mode = 0o600
                archive.addfile(member, io.BytesIO(data))
                written.add(listed.digest)
    try:
        write_whole(path, buffer.getvalue(), 0o600)
    except OSError as error:
        raise _unwritable(path, error) from error
    return len(written)


def _unwritable(path: Path, error: OSError) -> CacheError:
    return CacheError(
        f"{path} cannot be written: {error.strerror or error}",
        value=str(path),
        remedy="Choose another file",
    )


def _check_destination(path: Path) -> None:
    """Refuse a folder, and a file of the user's that is something else than an archive."""
    try:
        path.parent.stat()  # said before every entry is read
        is_other = path.is_dir() or (
            path.exists() and path.stat().st_size > 0 and not tarfile.is_tarfile(path)
        )
    except OSError as error:
        raise _unwritable(path, error) from error
    if is_other:
        raise ArgumentValueError(
            f"{path} is a {'folder' if path.is_dir() else 'file that is not an archive'}",
            value=str(path),
            limit="export() writes a new file, or replaces an archive",
            remedy="Give it another name, such as kernels.tar",
        )


def import_entries(
    store: Store, file: str | os.PathLike[str], secret: bytes | None, max_bytes: int
) -> Imported:
    """Take the entries of an archive into a folder that may hold `max_bytes`."""
    path = read_path(file)
    imported = evicted = 0
    refused: Counter[str] = Counter()
    try:
        with _opened(path) as stream, tarfile.open(fileobj=stream, mode="r:") as archive:
            for member in archive:
                try:
                    entry = _read_member(archive, member, secret)
                    evicted += _keep(store, Key.decode(entry.key), entry, max_bytes)
                except BadEntry as bad:
                    refused[bad.reason.value] += 1
                except ValueError:
                    refused[Reason.STRUCTURE.value] += 1
                else:
                    imported += 1
    # tarfile does not always raise TarError for invalid sizes and times.
    except (tarfile.TarError, EOFError, ValueError, OverflowError) as error:
        raise CacheError(
            f"{path} is not an archive of cache entries: {error}",
            value=str(path),
            remedy="Make one with kd.cache.export(file) or kerneldsl cache export",
        ) from error
    except OSError as error:
        raise CacheError(
            f"{path} cannot be read: {error.strerror or error}",
            value=str(path),
            remedy="Check the path",
        ) from error
    return Imported(imported, dict(refused), evicted)


def _keep(store: Store, key: Key, entry: Entry, max_bytes: int) -> int:
    """Write an entry; return how many were removed to make room."""
    try:
        return write_within(store, key, entry.sections, max_bytes)[1]
    except OSError as error:
        raise store.folder.unwritable_error(error) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, or the one that a link leads to; no pipe is waited for."""
    with open(path, "rb", opener=open_at_once) as file:
        try:
            check_plain(file.fileno(), path.name)
        except BadEntry as bad:
            raise OSError(errno.EINVAL, bad.detail) from bad
        yield file


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, secret: bytes | None) -> Entry:
    # A sparse one is written in few bytes and read as many.
    if not member.isreg() or member.issparse():
        raise BadEntry(Reason.KIND, f"{member.name} is not a regular file")
    if member.size > MAX_ENTRY_BYTES:
        raise BadEntry(Reason.SIZE, f"{member.name} has {member.size} bytes")
    stream = archive.extractfile(member)
    assert stream is not None  # of a plain file there is one
    return decode(stream.read(), None, secret)
