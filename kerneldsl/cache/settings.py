"""Settings of the cache from the environment, and the secret of a shared one."""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from kerneldsl.errors import CacheError
from kerneldsl.utilities.environment import ON_WORDS, named_path
from kerneldsl.utilities.untrusted import read_plain_file

__all__ = [
    "DEFAULT_SIZE_BYTES",
    "MIN_SECRET_BYTES",
    "NAMES",
    "Settings",
    "read_secret",
    "read_settings",
    "read_size",
]

DEFAULT_SIZE_BYTES = 2**30
#: More than any disk has; a float holds it, of whatever length the number is.
_UNLIMITED_BYTES = 2.0**63
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE = r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?"
#: Fewest bytes of a secret. A key of HMAC-SHA256 should have the length of its digest (RFC 2104,
#: section 3); half of that cannot be guessed either.
MIN_SECRET_BYTES = 16
_MAX_SECRET_BYTES = 4096
#: The variables that settings are read from.
NAMES = (
    "KERNELDSL_CACHE",
    "KERNELDSL_CACHE_DIR",
    "KERNELDSL_CACHE_SITE",
    "KERNELDSL_CACHE_SIZE",
    "KERNELDSL_CACHE_KEY_FILE",
    "KERNELDSL_CACHE_SHARED",
)


class Settings(NamedTuple):
    """The variables as they are, unread."""

    #: Whether the cache is used; ``KERNELDSL_CACHE=off`` turns it off.
    is_on: bool
    #: ``KERNELDSL_CACHE_DIR`` and ``KERNELDSL_CACHE_SITE``; empty if they are not set.
    folder: str
    site: str
    #: ``KERNELDSL_CACHE_SIZE``.
    size: str
    #: ``KERNELDSL_CACHE_KEY_FILE``.
    key_file: str
    #: ``KERNELDSL_CACHE_SHARED`` with a key file: folders of other users, and folders that others
    #: may write to, are accepted. Without a key file no signature shows who wrote an entry.
    is_shared: bool


def read_settings() -> Settings:
    """Read the environment as it is now."""
    on, folder, site, size, key_file, shared = (os.environ.get(n, "").strip() for n in NAMES)
    return Settings(
        is_on=not on or on.lower() in ON_WORDS,
        folder=folder,
        site=site,
        size=size,
        key_file=key_file,
        is_shared=shared.lower() in ON_WORDS and bool(key_file),
    )


def read_size(text: str, name: str = "KERNELDSL_CACHE_SIZE") -> int:
    """Return the bytes that a variable, or what has another `name`, stands for.

    A number of bytes, or with a unit of 1024: ``"500M"``, ``"2 GiB"``; empty for the default.
    Raises `CacheError` if it is not that; the message names it.

    Examples
    --------
    >>> read_size("1.5k"), read_size("2 GiB"), read_size("") == DEFAULT_SIZE_BYTES
    (1536, 2147483648, True)
    """
    if not text:
        return DEFAULT_SIZE_BYTES
    match = re.fullmatch(_SIZE, text, re.IGNORECASE)
    if match is None:
        raise CacheError(
            f"{name} is {text!r}",
            value=text,
            limit="It must be a number of bytes, with or without K, M, G or T",
            remedy="Give a size such as 500M, or none for 1 GiB",
        )
    return int(min(float(match[1]) * _UNITS[match[2].lower()], _UNLIMITED_BYTES))


def read_secret(key_file: str) -> bytes | None:
    """Read the file that ``KERNELDSL_CACHE_KEY_FILE`` names.

    Return the contents without white space around them; ``None`` for an empty path. Raises
    `CacheError` if there is no such file, others can read it, or it is too short. A cache that
    should be signed and cannot be is not used.
    """
    if not key_file:
        return None
    path = named_path("KERNELDSL_CACHE_KEY_FILE", key_file)
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
            limit=f"It must have {MIN_SECRET_BYTES} to {_MAX_SECRET_BYTES} bytes",
            remedy=f"Make one: head -c 32 /dev/urandom | base64 > {path}",
        )
    return secret
