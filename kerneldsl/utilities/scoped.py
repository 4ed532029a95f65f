"""A choice that a plain call makes for the process, and a ``with`` for its context.

:class:`kerneldsl.use` and :class:`kerneldsl.fallback` are such choices.
"""

from __future__ import annotations

import contextvars
import weakref
from typing import Any, ClassVar, Generic, Self, TypeVar

from kerneldsl.utilities.locks import ForkSafeLock

__all__ = ["Choice", "ScopedValue"]

T = TypeVar("T")


class ScopedValue(Generic[T]):
    """Choice in a context, and for the process."""

    def __init__(self, name: str) -> None:
        #: The choice of the innermost active ``with``, or ``None``; each thread and asyncio task
        #: has its own.
        self.in_context: contextvars.ContextVar[T | None] = contextvars.ContextVar(
            name, default=None
        )
        #: Choice of the last plain call.
        self.process_wide: T | None = None
        #: Plain calls, oldest first. One that turns out to be a ``with`` is taken out again.
        self._plain: list[tuple[weakref.ref[Choice[T]], T]] = []
        self._lock = ForkSafeLock()

    def current(self) -> T | None:
        """Return the current choice, or ``None``."""
        chosen = self.in_context.get()
        return self.process_wide if chosen is None else chosen

    def put(self, choice: Choice[T], value: T) -> None:
        """Note a plain call."""
        with self._lock:
            # An entry with a deleted object can no longer become a `with` and be removed. So no
            # entry before the newest such one has an effect again.
            settled = [i for i, entry in enumerate(self._plain) if entry[0]() is None]
            kept = self._plain[settled[-1] if settled else 0 :]
            self._set([*kept, (weakref.ref(choice), value)])

    def take_out(self, choice: Choice[T]) -> None:
        """Forget a plain call: it is a ``with``."""
        with self._lock:
            self._set([entry for entry in self._plain if entry[0]() is not choice])

    def _set(self, entries: list[tuple[weakref.ref[Choice[T]], T]]) -> None:
        self._plain[:] = entries
        self.process_wide = entries[-1][1] if entries else None


class Choice(Generic[T]):
    """Holds for the whole process when called plainly, for its context as a ``with``.

    Notes
    -----
    Python calls before it enters a ``with``, so for the instant in between the choice is
    process-wide. Another thread that looks just then, outside of any ``with``, may see it.
    """

    __slots__ = ("__weakref__", "_tokens", "_value")

    #: Scope of the choices of this kind.
    _scope: ClassVar[ScopedValue[Any]]

    def __init__(self, value: T) -> None:
        self._value = value
        self._tokens: list[contextvars.Token[T | None]] = []
        self._scope.put(self, value)

    def __enter__(self) -> Self:
        self._scope.take_out(self)
        self._tokens.append(self._scope.in_context.set(self._value))
        return self

    def __exit__(self, *exc: object) -> None:
        self._scope.in_context.reset(self._tokens.pop())
