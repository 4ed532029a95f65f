"""The names of an object that a program is to see: those that interpreters complete."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["public_names"]


def public_names(names: Iterable[str], internal: Iterable[str] = ()) -> list[str]:
    """Return names for ``__dir__``: those with two underscores, and public ones but the internal.

    Examples
    --------
    >>> public_names(["__len__", "_block", "shape", "seal"], internal=["seal"])
    ['__len__', 'shape']
    """
    hidden = set(internal)
    return sorted(
        name
        for name in set(names)
        if name not in hidden and (not name.startswith("_") or name.startswith("__"))
    )
