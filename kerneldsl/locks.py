"""A lock that a forked child finds open.

A process may fork while another of its threads holds a lock, to compile a kernel say; that thread
does not exist in the child, and nothing would ever open the lock there. What the locks of this
package protect are tables whose entries are put in whole, so the child may go on from them.
"""

from __future__ import annotations

import os
import threading
import weakref
from types import TracebackType

__all__ = ["ForkSafeLock"]

_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A reentrant lock for ``with``, made anew in a forked child."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()

    def _open(self) -> None:
        self._lock = threading.RLock()


def _open_all() -> None:
    for lock in tuple(_locks):
        lock._open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)
