"""Progress of tuning, on a terminal, once it takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

__all__ = ["ProgressBar"]

#: Seconds before which nothing is shown.
_MOMENT_S = 0.5


class ProgressBar:
    """Shows on standard error how many plans were measured, while that is a terminal.

    Parameters
    ----------
    total : int
        Plans that there are.
    tell : callable or None
        Told of each plan in a line of text, in the place of a bar.
    is_shown : bool
        Whether there is a bar where nobody is told.
    """

    def __init__(self, total: int, tell: Callable[[str], object] | None, is_shown: bool) -> None:
        self._total = total
        self._tell = tell
        self._is_shown = is_shown and tell is None and sys.stderr is not None
        self._is_shown = self._is_shown and sys.stderr.isatty()
        self._started = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def step(self, done: int, best_ns: float) -> None:
        """Say that so many plans were measured, the best in so many nanoseconds."""
        text = f"{done} of {self._total} plans, best {best_ns / 1e3:.1f} µs"
        if self._tell is not None:
            self._tell(text)
        elif self._is_shown and time.perf_counter() - self._started > _MOMENT_S:
            if self._bar is None:
                self._open()
            self._bar.update(self._task, completed=done, description=text)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._bar = Progress(
            TextColumn("tuning: {task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task("", total=self._total)
        self._bar.start()
