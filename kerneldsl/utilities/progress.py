"""Progress of what takes longer than a moment: a line on a terminal, a bar in a notebook.

No progress is shown if standard error is no terminal and there is no notebook. It is removed when
the work is done.

References
----------
IPython documentation, "IPython.display", `display` with ``display_id``; ECMA-48, "EL".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from kerneldsl.utilities.modules import imported

__all__ = ["MOMENT_S", "NotebookBar", "Screen", "notebook_bar", "said_after_a_moment", "screen"]

#: Seconds before which nothing is shown.
MOMENT_S = 0.5


class _Line(Protocol):
    """Place where progress is shown."""

    def show(self, text: str) -> None: ...
    def close(self) -> None: ...


class NotebookBar:
    """A bar in the output of a notebook's cell.

    - `display`: IPython's `display`.
    """

    def __init__(self, display: Callable[..., Any]) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show a text, and how much of it is done if that is known."""
        from kerneldsl.utilities.html import card, element

        bar = element("progress", value=done, max=total)
        self._put({"text/plain": text, "text/html": str(card(None, element("p", bar, " ", text)))})

    def close(self) -> None:
        """Take the bar away: an output without any form takes no room, an empty text has a line."""
        if self._handle is not None:
            self._put({})

    def _put(self, bundle: dict[str, str]) -> None:
        if self._handle is None:
            self._handle = self._display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


class _TerminalLine:
    """The last line of a terminal."""

    def show(self, text: str) -> None:
        # The text has one line: if the terminal wrapped it, only the last one would be erased.
        columns = _columns()
        shown = text if len(text) < columns else f"{text[: columns - 2]}…"
        sys.stderr.write(f"\r{shown}\x1b[K")
        sys.stderr.flush()

    def close(self) -> None:
        self.show("")


def _columns() -> int:
    """Return the width of the terminal; 80 if it does not say."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):
        return 80


class Screen:
    """Place where progress is shown: by one at a time, so that lines are not overwritten."""

    def __init__(self) -> None:
        self._is_taken = False

    def take(self) -> bool:
        """Take the screen; ``False`` where somebody has it."""
        was_taken, self._is_taken = self._is_taken, True
        return not was_taken

    def leave(self) -> None:
        """Leave the screen to the next."""
        self._is_taken = False


screen = Screen()


def notebook_bar() -> NotebookBar | None:
    """Return a bar in the cell that runs now; ``None`` outside of notebooks."""
    ipython = imported("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if getattr(shell, "kernel", None) is None:  # a terminal's shell has none
        return None
    from IPython.display import display

    return NotebookBar(display)


@contextmanager
def said_after_a_moment(text: Callable[[], str]) -> Iterator[None]:
    """Show a text while something takes longer than a moment.

    - `text`: gives the text, when it is shown.
    """
    line = _line()
    if line is None:
        yield
        return
    from threading import Lock, Timer

    lock, is_done, is_shown = Lock(), False, False

    def show() -> None:
        nonlocal is_shown
        # A failing display must not stop the compilation.
        with lock, suppress(Exception):
            if not is_done and screen.take():
                is_shown = True
                line.show(text())

    timer = Timer(MOMENT_S, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        with lock:
            is_done = True
        if is_shown:
            screen.leave()
            with suppress(Exception):
                line.close()


def _line() -> _Line | None:
    """Return where progress is shown, if anywhere."""
    bar = notebook_bar()
    if bar is not None:
        return bar
    is_terminal = sys.stderr is not None and sys.stderr.isatty()
    return _TerminalLine() if is_terminal else None
