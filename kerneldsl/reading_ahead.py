"""Importing what a first launch takes, while a driver is being waited for.

A driver takes a tenth of a second to start, in which Python has nothing to do, and a first launch
imports some hundred modules. So they are imported by a thread of their own meanwhile.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

from kerneldsl.environment import logger
from kerneldsl.locks import no_fork

__all__ = ["FIRST_LAUNCH", "reading_ahead"]

#: What a first launch with everything in the cache imports, beside what a target does.
FIRST_LAUNCH = (
    "kerneldsl.runtime.dispatch",
    "kerneldsl.runtime.memory.creation",
    "kerneldsl.frontend.normalize",
    "kerneldsl.cache.specialization",
)

#: Where there is no driver that is known sooner than this, and nothing need be imported.
_QUICK_S = 0.003
#: The thread is not waited for without end: whoever is waiting may be importing a module, say a
#: program that works on a GPU when it is imported, which another import needs.
_PATIENCE_S = 1.0


@contextmanager
def reading_ahead(*modules: str) -> Iterator[None]:
    """A ``with`` block in which the interpreter's lock is given up for long.

    Parameters
    ----------
    *modules : str
        What is imported beside what every first launch takes.
    """
    if sys.is_finalizing():  # a thread might never begin
        yield
        return
    is_over = threading.Event()
    thread = threading.Thread(
        target=_read,
        args=(is_over, (*FIRST_LAUNCH, *modules)),
        name="kerneldsl-reading-ahead",
        daemon=True,
    )
    is_started = True
    try:
        thread.start()
    except RuntimeError:  # there are too many threads
        is_started = False
    try:
        yield
    finally:
        is_over.set()
        # What two threads import at once each may find half-made, if packages import their parts.
        if is_started:
            thread.join(_PATIENCE_S)


def _read(is_over: threading.Event, modules: tuple[str, ...]) -> None:
    if is_over.wait(_QUICK_S):
        return
    try:
        with no_fork:  # a child would wait for the import for ever
            for module in modules:
                import_module(module)
    except Exception as error:  # noqa: BLE001 -- whoever needs the module imports it again, and is told
        logger.debug("reading ahead: %s", error)
