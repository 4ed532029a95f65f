"""Variables that are determined when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["MISSING", "Lazy", "settled"]

#: Value of a variable on a path that does not assign it.
MISSING: Any = object()


class Lazy:
    """A variable that is determined when it is first read."""

    def __init__(self, find: Callable[[], Any]) -> None:
        self._find: Callable[[], Any] | None = find
        self._found: Any = None

    def get(self) -> Any:
        """Return the variable's value."""
        if self._find is not None:
            self._found = self._find()
            self._find = None
        return self._found


def settled(value: Any) -> Any:
    """Return a value that is not lazy."""
    while isinstance(value, Lazy):
        value = value.get()
    return value
