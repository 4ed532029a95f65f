"""Count threads that can run at the same time: processors, affinity, and a container's quota."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import NamedTuple

from kerneldsl.utilities.control_groups import group_settings

__all__ = ["Runnable", "processor_quota", "runnable_threads"]


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


def processor_quota(root: str | Path = "/") -> float | None:
    """Return how many processors' time this process may take; ``None`` where there is no limit."""
    base, quotas = Path(root), []
    for text in group_settings("cpu", "cpu.max", "cpu.cfs_quota_us", base):
        quotas.append(_quota(text, _DEFAULT_PERIOD_US))
    periods = group_settings("cpu", "-", "cpu.cfs_period_us", base)
    for text, period in zip(
        group_settings("cpu", "-", "cpu.cfs_quota_us", base), periods, strict=True
    ):
        quotas.append(_quota(text, int(period) if period.isdigit() else _DEFAULT_PERIOD_US))
    return min((each for each in quotas if each is not None), default=None)


_DEFAULT_PERIOD_US = 100_000


def _quota(text: str, period_us: int) -> float | None:
    """Read ``"50000 100000"``, ``"max 100000"``, ``"-1"`` or ``"50000"``."""
    quota, _, period = text.partition(" ")
    if not quota.isdigit():
        return None
    length = int(period) if period.isdigit() and int(period) else period_us
    return int(quota) / length if length and int(quota) else None
