"""More threads than can run at once, for programs that test what happens then."""

from __future__ import annotations

import os

from targets.cpu.runtime import threads
from targets.cpu.runtime.processors import Runnable

__all__ = ["allow_any_number_of_threads"]


def allow_any_number_of_threads() -> None:
    """Let ``NUMBA_NUM_THREADS`` say how many threads there are, before the first launch."""
    asked = int(os.environ.get("NUMBA_NUM_THREADS", "0")) or (os.cpu_count() or 1)
    threads.runnable_threads = lambda: Runnable(asked, "test")  # type: ignore[attr-defined]
