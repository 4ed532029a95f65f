"""The key of an entry: everything that can change what it holds, by name and in words.

A key is readable on purpose. It is compared whole when an entry is read, and where two of them
differ is what ``kerneldsl cache explain-miss`` prints.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from kerneldsl.cache.reasons import UncacheableError
from kerneldsl.contract import Specialization
from kerneldsl.errors.values import a_type
from kerneldsl.frontend.fingerprint import UnidentifiedError, identify
from kerneldsl.language.kinds import format_signature
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass, field_names
from kerneldsl.utilities.untrusted import parse_json

__all__ = ["Key", "describe", "key_of"]


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


def key_of(
    specialization: Specialization, target: str, identity: Mapping[str, str], *, anew: bool = False
) -> Key:
    """Return the key of the code that a target makes of a specialization.

    `target` is who compiles it, :attr:`Compiler.code_family`, and `identity` what it says of
    itself, :meth:`Compiler.code_identity`. `anew` looks again at everything that may have changed
    while the code was made. Raises `UncacheableError` if not everything that the code depends on
    can be determined.
    """
    options = specialization.options
    if options.debug:
        raise UncacheableError("in debug mode, code belongs to lines and to exceptions")
    components = {"target": target, "signature": format_signature(specialization.kinds)}
    try:
        has_lines = options.lineinfo or options.variables
        components |= identify(specialization.unit, has_lines=has_lines)
    except UnidentifiedError as error:
        raise UncacheableError(str(error)) from error
    if specialization.code is not None:
        components |= specialization.code.identity()
    for name in field_names(specialization) or ():
        if name not in ("unit", "kinds", "code"):
            components |= dict(_flat(name, getattr(specialization, name)))
    from kerneldsl.cache.toolchain import toolchain_identity  # not for keys of shipped code

    for name, value in (*toolchain_identity(anew=anew).items(), *identity.items()):
        if name in components:
            raise UncacheableError(f"two parts of the key are called {name}")
        components[name] = value
    return Key(components)


def _flat(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """Return the fields of a value one by one, so that a difference can be shown."""
    names = field_names(value)
    if names is None:
        yield name, describe(value)
    for each in names or ():
        yield f"{name}.{each}", describe(getattr(value, each))


def describe(value: Any) -> str:
    """Write a value so that different ones are written differently, in every process the same.

    Raises `UncacheableError` for a value of no known kind.

    Examples
    --------
    >>> describe((1, 1.0, "1", None, frozenset({2, 1})))
    "(1, 0x1.0000000000000p+0, '1', None, {1, 2})"
    """
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if value is None or type(value) in (bool, int, str, bytes):
        return repr(value)
    if type(value) is float:
        return value.hex()
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(describe, value))})"
    if isinstance(value, (frozenset, set)):
        return f"{{{', '.join(sorted(map(describe, value)))}}}"
    if isinstance(value, Mapping):
        items = sorted((describe(k), describe(v)) for k, v in value.items())
        return f"{{{', '.join(f'{k}: {v}' for k, v in items)}}}"
    names = field_names(value)
    if names is not None:
        inner = ", ".join(f"{name}={describe(getattr(value, name))}" for name in names)
        return f"{type(value).__qualname__}({inner})"
    raise UncacheableError(f"nothing says what of {a_type(value)} the code depends on")
