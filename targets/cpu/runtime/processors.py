"""Count threads that can run at the same time: processors, affinity, and a container's quota.

The threads that can be started are counted, too, for pools that need all that they start. GNU's
OpenMP ends the process where one cannot be started, and Numba's workqueue waits for it permanently.
TBB's pool and the target's own work with those that there are.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
from pathlib import Path
from typing import NamedTuple

from kerneldsl.utilities.control_groups import group_settings

__all__ = ["Runnable", "processor_quota", "runnable_threads", "startable_threads"]

#: More than ``sem_t`` has on any Linux.
_SEMAPHORE_WORDS = 8


class Runnable(NamedTuple):
    """A number of threads, and what limits it.

    Parameters
    ----------
    threads : int
        How many can run at once, 1 or more.
    limit : str
        What does not let more run.
    """

    threads: int
    limit: str


def runnable_threads() -> Runnable:
    """Return how many threads of this process can run at once."""
    try:
        found = Runnable(max(1, len(os.sched_getaffinity(0))), "processors of this process")
    except AttributeError:  # not on every system
        found = Runnable(os.cpu_count() or 1, "processors of this machine")
    quota = processor_quota()
    if quota is not None and math.ceil(quota) < found.threads:
        return Runnable(max(1, math.ceil(quota)), f"control group's quota of {quota:g} processors")
    return found


@functools.cache  # a device and a pool are made for it once, too
def processor_quota(root: str | Path = "/") -> float | None:
    """Return how many processors' time this process may take; ``None`` if there is no limit."""
    base = Path(root)
    limits = [text.partition(" ")[::2] for text in group_settings("cpu", "cpu.max", None, base)]
    # The first version has the period in its own file, and it need not be the default.
    quotas = group_settings("cpu", None, "cpu.cfs_quota_us", base)
    periods = group_settings("cpu", None, "cpu.cfs_period_us", base)
    limits += zip(quotas, periods, strict=True)
    found = (_processors(quota, period) for quota, period in limits)
    return min((each for each in found if each is not None), default=None)


_DEFAULT_PERIOD_US = 100_000


def _processors(quota: str, period: str) -> float | None:
    """Divide a quota by its period; ``"max"``, ``"-1"`` and a missing one are no limit."""
    if not quota.isdecimal() or not int(quota):
        return None
    length = int(period) if period.isdecimal() else 0
    return int(quota) / (length or _DEFAULT_PERIOD_US)


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
