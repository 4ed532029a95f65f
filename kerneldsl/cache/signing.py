"""The secret that the entries of a shared cache are signed with."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from kerneldsl.errors import CacheError
from kerneldsl.utilities.untrusted import read_plain_file

__all__ = ["MIN_SECRET_BYTES", "read_secret"]

#: As short a key as HMAC-SHA256 should have is the length of its digest (RFC 2104, section 3);
#: half of that is still beyond guessing.
MIN_SECRET_BYTES = 16
_MAX_SECRET_BYTES = 4096


def read_secret(key_file: str) -> bytes | None:
    """Read the file that ``KERNELDSL_CACHE_KEY_FILE`` names.

    Return the contents without white space around them; ``None`` for an empty path. Raises
    `CacheError` if there is no such file, others can read it, or it is too short: a cache that
    should be signed and cannot be is not used at all.
    """
    if not key_file:
        return None
    path = Path(key_file).expanduser()
    try:
        contents, status = read_plain_file(path, _MAX_SECRET_BYTES + 1)
    except OSError as error:
        raise CacheError(
            f"the key of the cache, {path}, cannot be read: {error.strerror or error}",
            value=str(path),
            remedy="Correct KERNELDSL_CACHE_KEY_FILE, or unset it to go without signatures",
        ) from error
    if hasattr(os, "getuid") and status.st_mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise CacheError(
            f"the key of the cache, {path}, is open to others (mode "
            f"{stat.S_IMODE(status.st_mode):04o})",
            value=str(path),
            limit="Who can read it can sign entries, and entries are run",
            remedy=f"Run: chmod 600 {path}",
        )
    secret = contents.strip()
    if not MIN_SECRET_BYTES <= len(secret) <= len(contents) <= _MAX_SECRET_BYTES:
        many = (
            f"more than {_MAX_SECRET_BYTES}" if len(contents) > _MAX_SECRET_BYTES else len(secret)
        )
        raise CacheError(
            f"the key of the cache, {path}, has {many} bytes",
            value=min(len(secret), len(contents)),
            limit=f"It has {MIN_SECRET_BYTES} to {_MAX_SECRET_BYTES} bytes",
            remedy=f"Make one: head -c 32 /dev/urandom | base64 > {path}",
        )
    return secret
