"""Values of users in messages: shown in a line, whatever they are and do."""

from __future__ import annotations

import operator
from typing import Any

__all__ = ["a_type", "as_int", "safe_repr"]

#: Longer ones are cut: a message is read.
_MAX_LENGTH = 200


def safe_repr(value: Any) -> str:
    """Return a value's repr in one short line; never raises.

    Arrays are shown by their shape and dtype, for their elements may be many, and on a device.

    Examples
    --------
    >>> safe_repr((64, "a")), safe_repr(10**9999)
    ("(64, 'a')", 'an int of 33216 bits')
    """
    try:
        if isinstance(value, int) and value.bit_length() > 256:
            # Python writes no number of more than 4300 digits.
            return f"an int of {value.bit_length()} bits"
        is_type = isinstance(value, type)  # NumPy's have descriptors of these names
        if not is_type and getattr(value, "shape", None) and hasattr(value, "dtype"):
            return f"{type(value).__name__}(shape={value.shape}, dtype={value.dtype})"
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        return f"<{a_type(value)} without a working repr>"
    return text if len(text) <= _MAX_LENGTH else f"{text[: _MAX_LENGTH - 1]}…"


def a_type(value: Any) -> str:
    """Return the name of a value's type with its article.

    Examples
    --------
    >>> a_type(1), a_type("x"), a_type(None)
    ('an int', 'a str', 'a NoneType')
    """
    name = type(value).__qualname__
    is_spoken_with_vowel = name[0].lower() in "aeio" or name.startswith("nd")  # an ndarray
    return f"{'an' if is_spoken_with_vowel else 'a'} {name}"


def as_int(value: Any) -> int | None:
    """Return a value as an int, or ``None`` if it is not one, as True and 2.0. Never raises."""
    if type(value) is int:
        return value
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return None
    try:
        return operator.index(value)
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        return None
