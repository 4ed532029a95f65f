"""Progress of tuning, on a terminal or in a notebook, once it takes longer than a moment."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from kerneldsl.utilities.progress import MOMENT_S, NotebookBar, notebook_bar, screen

__all__ = ["ProgressBar"]


class ProgressBar:
    """Shows how many plans were measured: in a notebook, or on a terminal's standard error.

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
        self._notebook = notebook_bar() if is_shown and tell is None else None
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        self._is_shown = is_shown and tell is None and (is_terminal or self._notebook is not None)
        self._started = time.perf_counter()
        self._bar: Any = None
        self._task: Any = None

    def step(self, done: int, best_ns: float) -> None:
        """Say that so many plans were measured, the best in so many nanoseconds."""
        text = f"{done} of {self._total} plans, best {best_ns / 1e3:.1f} µs"
        if self._tell is not None:
            self._tell(text)
        elif self._is_shown and time.perf_counter() - self._started > MOMENT_S:
            if self._bar is None:
                screen.take()
                self._open()
            if isinstance(self._bar, NotebookBar):
                self._bar.show(f"tuning: {text}", done, self._total)
            else:
                self._bar.update(self._task, completed=done, description=text)

    def close(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            screen.leave()
            stop = self._bar.close if isinstance(self._bar, NotebookBar) else self._bar.stop
            stop()

    def _open(self) -> None:
        if self._notebook is not None:
            self._bar = self._notebook
            return
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
