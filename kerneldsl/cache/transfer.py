"""Entries in one file, to take to another machine.

The file is a tar archive of entries. Importing never unpacks it to names of its choosing: each
entry is read, checked as any other, and written by this cache under the name of its key. The key
says what the code is for, so an entry of another architecture or version is kept and never used.
"""

from __future__ import annotations

import io
import os
import tarfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kerneldsl.cache.entry import MAX_ENTRY_BYTES, Entry, decode, encode
from kerneldsl.cache.files import write_whole
from kerneldsl.cache.inventory import read_entries
from kerneldsl.cache.key import Key
from kerneldsl.cache.reasons import BadEntry, Reason
from kerneldsl.cache.store import SUFFIX, Store
from kerneldsl.errors import CacheError
from kerneldsl.utilities.formatting import AsDict

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
    """

    imported: int
    refused: Mapping[str, int]


def export_entries(stores: list[Store], file: str | os.PathLike[str], secret: bytes | None) -> int:
    """Write every sound entry of some folders into an archive; return how many."""
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
    write_whole(Path(file).absolute(), buffer.getvalue(), 0o600)
    return len(written)


def import_entries(store: Store, file: str | os.PathLike[str], secret: bytes | None) -> Imported:
    """Take the entries of an archive into a folder."""
    imported = 0
    refused: Counter[str] = Counter()
    try:
        with tarfile.open(file, mode="r:") as archive:
            for member in archive:
                try:
                    entry = _read_member(archive, member, secret)
                    key = Key.decode(entry.key)
                except BadEntry as bad:
                    refused[bad.reason.value] += 1
                except ValueError:
                    refused[Reason.STRUCTURE.value] += 1
                else:
                    store.write(key, entry.sections)
                    imported += 1
    except tarfile.TarError as error:
        raise CacheError(
            f"{os.fspath(file)} is not an archive of cache entries: {error}",
            value=os.fspath(file),
            remedy="Make one with kd.cache.export(file) or kerneldsl cache export",
        ) from error
    return Imported(imported, dict(refused))


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo, secret: bytes | None) -> Entry:
    if not member.isreg():
        raise BadEntry(Reason.KIND, f"{member.name} is not a regular file")
    if member.size > MAX_ENTRY_BYTES:
        raise BadEntry(Reason.SIZE, f"{member.name} has {member.size} bytes")
    stream = archive.extractfile(member)
    assert stream is not None  # of a plain file there is one
    return decode(stream.read(), None, secret)
