"""The key of an entry: everything that can change what it holds, by name and in words.

A key is readable on purpose. It is compared whole when an entry is read, and where two of them
differ is what ``kerneldsl cache explain-miss`` prints.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.untrusted import parse_json

__all__ = ["Key"]


@dataclass(frozen=True)
class Key:
    """Identity of an entry.

    Examples
    --------
    >>> Key({"b": "2", "a": "1"}).encoded
    b'{"a":"1","b":"2"}'
    >>> Key({"a": "1", "b": "2"}) == Key({"b": "2", "a": "1"})
    True
    """

    #: Name to value, such as ``{"arch": "sm_90", "numba": "0.68.1"}``.
    components: Mapping[str, str]

    @cached_property
    def encoded(self) -> bytes:
        """The key as bytes, which are in the entry."""
        # The order of the components is no part of the key. Surrogates are escaped.
        text = json.dumps(dict(self.components), sort_keys=True, separators=(",", ":"))
        return text.encode("ascii")

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the key, which the file is named by."""
        return hashlib.sha256(self.encoded).hexdigest()

    @classmethod
    def decode(cls, encoded: bytes) -> Key:
        """Read a key out of an entry.

        Raises `ValueError` if it is not written as :attr:`encoded` writes it.
        """
        found = parse_json(encoded)
        if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
            raise ValueError("a key is an object of strings")
        key = cls(found)
        if key.encoded != encoded:
            raise ValueError("the key is not in its normal form")
        return key
