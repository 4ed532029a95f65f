"""Counts the threads that can be started, for pools that need all of theirs.

GNU's OpenMP ends the process where one cannot be started, and Numba's workqueue waits for it for
ever. TBB's pool and the target's own work with those that there are.
"""

from __future__ import annotations

import ctypes
import sys

__all__ = ["startable_threads"]

#: More than ``sem_t`` has on any Linux.
_SEMAPHORE_WORDS = 8


def startable_threads(count: int) -> int:
    """Return how many of `count` threads can run at once, which are started and ended for it.

    They have stacks of the default size. On systems other than Linux nothing is tried.
    """
    if sys.platform != "linux":
        return count
    libc = ctypes.CDLL(None)
    semaphore = (ctypes.c_uint64 * _SEMAPHORE_WORDS)()
    libc.sem_init(semaphore, 0, 0)
    started: list[ctypes.c_ulong] = []
    try:
        for _ in range(count):
            identity = ctypes.c_ulong()
            # They run C alone: a thread of Python would take an arena of memory, which stays.
            if libc.pthread_create(ctypes.byref(identity), None, libc.sem_wait, semaphore):
                break
            started.append(identity)
    finally:
        for _ in started:
            libc.sem_post(semaphore)
        for identity in started:
            libc.pthread_join(identity, None)
    return len(started)
