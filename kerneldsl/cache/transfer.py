"""Entries in one file, to take to another machine.

The file is a tar archive of entries. Importing never unpacks it to names of its choosing. Each
entry is read, checked as any other, and written by this cache under the name of its key. The key
names the architecture and versions of the code, so an entry of another one is stored and never
used.
"""

from __future__ import annotations

import errno
import io
import os
import tarfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from kerneldsl.cache.directory import check_plain, write_whole
from kerneldsl.cache.entry import MAX_ENTRY_BYTES, Entry, decode, encode
from kerneldsl.cache.inventory import read_entries
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.room import write_within
from kerneldsl.cache.store import SUFFIX, Store
from kerneldsl.errors import ArgumentValueError, CacheError
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict
from kerneldsl.utilities.paths import read_path

__all__ = ["Imported", "export_entries", "import_entries"]


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
        raise CacheError(
            f"{path} cannot be written: {error.strerror or error}",
            value=str(path),
            remedy="Choose another file",
        ) from error
    return len(written)


def _check_destination(path: Path) -> None:
    """Refuse a folder, and a file of the user's that is something else than an archive."""
    try:
        path.parent.stat()  # said before every entry is read
        is_other = path.is_dir() or (
            path.exists() and path.stat().st_size > 0 and not tarfile.is_tarfile(path)
        )
    except OSError as error:
        raise CacheError(
            f"{path} cannot be written: {error.strerror or error}",
            value=str(path),
            remedy="Choose another file",
        ) from error
    if is_other:
        raise ArgumentValueError(
            f"{path} is a {'folder' if path.is_dir() else 'file that is not an archive'}",
            value=str(path),
            limit="export() writes a new file, or an archive anew",
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
    # For invalid sizes and times tarfile does not always raise TarError.
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
        raise store.folder.unwritable(error) from error


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file, or the one that a link leads to; no pipe is waited for."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
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
