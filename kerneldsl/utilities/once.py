"""A table that makes each entry once, for any number of threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["OnceTable"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class OnceTable(Generic[Key, Value]):
    """Makes each entry once, with a lock for each key, so that other keys do not wait.

    What fails is not remembered: the next thread tries again.
    """

    def __init__(self) -> None:
        self._values: dict[Key, Value] = {}
        self._locks: dict[Key, ForkSafeLock] = {}
        self._lock = ForkSafeLock()

    def get(self, key: Key) -> Value | None:
        """Return the entry, if it has been made."""
        return self._values.get(key)

    def get_or_make(self, key: Key, make: Callable[[], Value]) -> Value:
        """Return the entry, made by this thread or by the one that came first."""
        value = self._values.get(key)
        if value is not None:
            return value
        with self._lock:
            lock = self._locks.setdefault(key, ForkSafeLock())
        with lock:
            value = self._values.get(key)
            if value is None:
                value = self._values[key] = make()
        with self._lock:
            self._locks.pop(key, None)
        return value

    def values(self) -> tuple[Value, ...]:
        """Return every entry made so far."""
        return tuple(self._values.values())
