"""One error as the history of errors keeps it, and how it is made of an error.

Beside :mod:`kerneldsl.contract.error_history`, which is imported with every target: this is needed
only when there is an error.
"""

from __future__ import annotations

import datetime
import sys
import threading
from dataclasses import dataclass
from typing import Any

from kerneldsl.errors import (
    CompileError,
    DriverError,
    GraphError,
    KernelError,
    KernelTypingError,
    TargetUnavailableError,
    ToolMissingError,
)
from kerneldsl.utilities.tracebacks import OWN_FOLDERS

__all__ = ["ErrorEntry", "describe"]

#: Categories of errors that no driver answered with.
_CATEGORY_OF_CLASS: tuple[tuple[type[KernelError], str], ...] = (
    (TargetUnavailableError, "initialization"),
    (CompileError, "compile"),
    (KernelTypingError, "compile"),
    (ToolMissingError, "compile"),
    (GraphError, "stream"),
)


@dataclass(frozen=True)
class ErrorEntry:
    """One error, as the history keeps it.

    Parameters
    ----------
    time : str
        When it was made: ISO 8601, UTC.
    category : str
        One of :data:`kerneldsl.contract.error_history.CATEGORIES`.
    error : str
        The name of its class.
    code, name : int, str or None
        The driver's code and the name of it, where a driver answered.
    is_fatal : bool
        Whether the device is lost with it.
    device : str or None
        Such as ``"cuda:0"``.
    doing : str
        What was being done.
    message : str
        The whole message.
    place : str
        ``file:line`` of the nearest caller outside of kerneldsl; empty where there is none.
    thread : str
        The name of the thread.
    count : int
        How often. Calls on a lost device are counted for each place instead of repeated.
    was_swallowed : bool
        Whether nobody was told, because it happened in a finalizer.
    """

    time: str
    category: str
    error: str
    code: int | None
    name: str | None
    is_fatal: bool
    device: str | None
    doing: str
    message: str
    place: str
    thread: str
    count: int = 1
    was_swallowed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of plain values."""
        return dict(self.__dict__)


def describe(error: KernelError, was_swallowed: bool) -> ErrorEntry:
    """Describe an error that has just been made; the place is that of the nearest caller."""
    answered = error if isinstance(error, DriverError) else None
    return ErrorEntry(
        time=datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds"),
        category=_category_of(error),
        error=type(error).__name__,
        code=answered.code if answered else None,
        name=answered.name if answered else None,
        is_fatal=answered.is_fatal if answered else False,
        device=answered.device if answered else None,
        doing=answered.doing if answered else "",
        message=str(error),
        place=_place_of_caller(),
        thread=threading.current_thread().name,
        was_swallowed=was_swallowed,
    )


def _category_of(error: KernelError) -> str:
    if isinstance(error, DriverError):
        return error.category
    return next((c for kind, c in _CATEGORY_OF_CLASS if isinstance(error, kind)), "system")


def _place_of_caller() -> str:
    """Return ``file:line`` of the nearest frame that is not kerneldsl's own."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
