"""Locks in a process that forks: one that a child finds open, and one that fork waits for.

A process may fork while another of its threads holds a lock, to compile a kernel say; that thread
does not exist in the child, and nothing would ever open the lock there. What the locks of this
package protect are tables whose entries are put in whole, so the child may go on from them.

Two things cannot be left half done: LLVM's work, and an import, whose lock Python keeps for the
thread that is gone. So fork waits for what is done under `no_fork`; Numba's compilations have a
lock of their own (:mod:`kerneldsl.lowering.numba_internals.compiling`).
"""

from __future__ import annotations

import os
import threading
import weakref

__all__ = ["ForkSafeLock", "no_fork"]

_locks: weakref.WeakSet[ForkSafeLock] = weakref.WeakSet()


class ForkSafeLock:
    """A reentrant lock for ``with``, rebuilt in a forked child."""

    __slots__ = ("__weakref__", "_lock")

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()

    def _open(self) -> None:
        self._lock = threading.RLock()


def _open_all() -> None:
    for lock in tuple(_locks):
        lock._open()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_all)


class _NoFork:
    """A ``with`` block during which no other thread forks.

    Nothing that compiles with Numba may run in it: fork may have taken Numba's lock.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._arming = ForkSafeLock()
        self._is_armed = False

    def __enter__(self) -> None:
        if not self._is_armed:
            self._arm()
        self._lock.acquire()

    def __exit__(self, *exc: object) -> None:
        self._lock.release()

    def _arm(self) -> None:
        # Fork takes the lock of logging too, and what is registered last it takes first: so a
        # message may be written in the block.
        import logging  # noqa: F401

        with self._arming:
            if not self._is_armed and hasattr(os, "register_at_fork"):
                lock = self._lock
                os.register_at_fork(
                    before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
                )
            self._is_armed = True


#: The one of the process.
no_fork = _NoFork()
