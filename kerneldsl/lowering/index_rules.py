"""Typing of indices."""

from __future__ import annotations

from typing import Any

from numba import errors, types

__all__ = ["check_index"]


def check_index(what: str, array: Any, index: Any) -> Any:
    """Return the type of an index that fits an array, or raise ``TypingError``."""
    parts = tuple(index.types) if isinstance(index, types.BaseTuple) else (index,)
    plain = tuple(types.unliteral(part) for part in parts)
    if not all(isinstance(part, types.Integer) for part in plain):
        raise errors.TypingError(
            f"{what}: the index must be an integer or a tuple of integers, and is {index}"
        )
    if len(plain) != array.ndim:
        raise errors.TypingError(
            f"{what}: the array has {array.ndim} dimensions, and the index {len(plain)}"
        )
    return types.Tuple(plain) if isinstance(index, types.BaseTuple) else plain[0]
