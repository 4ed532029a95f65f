"""The format of an entry: one file that says what it is, and whether it is whole.

::

    magic      8 bytes   \\x89 K D C \\r \\n \\x1a \\n
    schema     uint32    version of this format
    sections   uint32    how many
    key        uint64    length of the key in bytes
    total      uint64    length of the file in bytes
    key        …         the whole key, as it was asked for
    table      …         for each section: uint16 length of its name, uint64 its length, its name
    sections   …         their contents, in the order of the table
    signature  32 bytes  HMAC-SHA256 of everything before it; zeros where there is no secret
    checksum   32 bytes  SHA-256 of everything before it

Numbers are little-endian. The checksum finds every accident; it does not stop somebody who can
write to the file, who can also compute it. The signature does, as long as the secret is one.

The magic is that of PNG (ISO/IEC 15948, 5.2) with another name. It detects files that a transfer
changed: other line ends, or bytes of seven bits.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Mapping
from typing import NamedTuple

from kerneldsl.cache.reasons import BadEntry, Reason

__all__ = ["MAGIC", "MAX_ENTRY_BYTES", "SCHEMA", "Entry", "decode", "encode"]

MAGIC = b"\x89KDC\r\n\x1a\n"
SCHEMA = 1
#: Most bytes of an entry; larger files are not read.
MAX_ENTRY_BYTES = 256 * 2**20

_HEAD = struct.Struct("<8sIIQQ")
_ROW = struct.Struct("<HQ")
_DIGEST_BYTES = 32
_UNSIGNED = bytes(_DIGEST_BYTES)
_MAX_SECTIONS = 64


class Entry(NamedTuple):
    """Contents of an entry."""

    #: The whole key.
    key: bytes
    #: Name to contents.
    sections: Mapping[str, bytes]
    #: Whether the entry has a signature, with any secret.
    is_signed: bool = False


def encode(key: bytes, sections: Mapping[str, bytes], secret: bytes | None = None) -> bytes:
    """Write an entry.

    A `secret` signs it.
    """
    names = [name.encode() for name in sections]
    table = b"".join(
        _ROW.pack(len(name), len(data)) + name
        for name, data in zip(names, sections.values(), strict=True)
    )
    size = _HEAD.size + len(key) + len(table) + sum(map(len, sections.values()))
    total = size + 2 * _DIGEST_BYTES
    head = _HEAD.pack(MAGIC, SCHEMA, len(sections), len(key), total)
    body = b"".join((head, key, table, *sections.values()))
    body += _UNSIGNED if secret is None else hmac.digest(secret, body, "sha256")
    return body + hashlib.sha256(body).digest()


def decode(data: bytes, key: bytes | None = None, secret: bytes | None = None) -> Entry:
    """Read an entry, and believe nothing of it before it is checked.

    `key` is the one that it must be of, `secret` what it must be signed with. Raises `BadEntry`.
    """
    if len(data) < _HEAD.size + 2 * _DIGEST_BYTES:
        raise BadEntry(Reason.LENGTH, f"{len(data)} bytes are not a cache entry")
    magic, schema, count, key_length, total = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise BadEntry(Reason.MAGIC, f"the file begins with {magic!r}")
    if schema != SCHEMA:
        raise BadEntry(Reason.SCHEMA, f"schema {schema}, read is {SCHEMA}")
    if total != len(data):
        raise BadEntry(Reason.LENGTH, f"{len(data)} bytes of {total}")
    if hashlib.sha256(memoryview(data)[:-_DIGEST_BYTES]).digest() != data[-_DIGEST_BYTES:]:
        raise BadEntry(Reason.CHECKSUM, "SHA-256 does not match")
    signature = data[-2 * _DIGEST_BYTES : -_DIGEST_BYTES]
    if secret is not None:
        wanted = hmac.digest(secret, data[: -2 * _DIGEST_BYTES], "sha256")
        if not hmac.compare_digest(wanted, signature):
            raise BadEntry(Reason.SIGNATURE, "not signed with the secret of this process")
    found, sections = _split(data[_HEAD.size : -2 * _DIGEST_BYTES], count, key_length)
    if key is not None and found != key:
        raise BadEntry(Reason.KEY, "the entry is of another key")
    return Entry(found, sections, signature != _UNSIGNED)


def _split(body: bytes, count: int, key_length: int) -> tuple[bytes, dict[str, bytes]]:
    """Cut what follows the head into key and sections."""
    if key_length > len(body) or count > _MAX_SECTIONS:
        raise BadEntry(Reason.STRUCTURE, f"a key of {key_length} bytes, {count} sections")
    at = key_length
    rows: list[tuple[str, int]] = []
    try:
        for _ in range(count):
            name_length, length = _ROW.unpack_from(body, at)
            at += _ROW.size + name_length
            rows.append((body[at - name_length : at].decode(), length))
    except (struct.error, UnicodeDecodeError) as error:
        raise BadEntry(Reason.STRUCTURE, f"the table of sections: {error}") from error
    if at + sum(length for _, length in rows) != len(body):
        raise BadEntry(Reason.STRUCTURE, "the sections do not fill the entry")
    sections: dict[str, bytes] = {}
    for name, length in rows:
        sections[name] = body[at : at + length]
        at += length
    if len(sections) != count:
        raise BadEntry(Reason.STRUCTURE, "two sections have one name")
    return body[:key_length], sections
