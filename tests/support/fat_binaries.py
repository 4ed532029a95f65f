"""Reads fat binaries that are not compressed, as far as the tests need it.

References
----------
``fatbinary.h`` of the CUDA toolkit has the head of the file. What precedes each image is not
documented: it begins with the kind of the image, the size of this head, and that of the image, and
has the architecture at byte 28.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = ["FatImage", "read_fat_binary"]

_FILE = struct.Struct("<IHHQ")
_IMAGE = struct.Struct("<HHIQ12xI")
_MAGIC = 0xBA55ED50
_KINDS = {1: "ptx", 2: "cubin"}


class FatImage(NamedTuple):
    """One image of a file."""

    kind: str
    number: int
    contents: bytes


def read_fat_binary(data: bytes) -> list[FatImage]:
    """Return the images of a file, in order."""
    magic, version, at, size = _FILE.unpack_from(data)
    assert (magic, version, at + size) == (_MAGIC, 1, len(data))
    found = []
    while at < len(data):
        kind, _, head, nbytes, number = _IMAGE.unpack_from(data, at)
        found.append(FatImage(_KINDS[kind], number, data[at + head : at + head + nbytes]))
        at += head + nbytes
    assert at == len(data)
    return found
