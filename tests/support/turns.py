"""Locks by which threads of the host take turns."""

from __future__ import annotations

import threading

__all__ = ["taken_lock"]


def taken_lock() -> threading.Lock:
    """Return a lock that one thread waits for until another one releases it.

    A semaphore of Python's counts under a condition, which takes several times as long.
    """
    lock = threading.Lock()
    lock.acquire()
    return lock
