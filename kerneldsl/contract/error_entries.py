"""Entries of the history of errors, and how an error becomes one.

:mod:`kerneldsl.contract.error_history` is imported with every target. This module is imported at
the first error.
"""

from __future__ import annotations

import datetime
import sys
import threading

from kerneldsl.errors import (
    CompileError,
    DriverError,
    GraphError,
    KernelError,
    KernelTypingError,
    TargetUnavailableError,
    ToolMissingError,
)
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import AsDict
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
class ErrorEntry(AsDict):
    """An entry of the history of errors.

    Parameters
    ----------
    time : str
        Time of the error: ISO 8601, UTC.
    category : str
        One of :data:`kerneldsl.contract.error_history.CATEGORIES`.
    error : str
        Name of its class.
    code, name : int, str or None
        The driver's code and its name, for an error of a driver.
    is_fatal : bool
        Whether the device is lost.
    device : str or None
        The device, such as ``"cuda:0"``.
    doing : str
        The action that failed.
    message : str
        The whole message.
    place : str
        ``file:line`` of the nearest caller outside of kerneldsl, or empty.
    thread : str
        Name of the thread.
    count : int
        Number of occurrences. Calls on a lost device are counted by their place.
    was_swallowed : bool
        Whether it was not raised, for example in a finalizer.
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


def describe(error: KernelError, was_swallowed: bool) -> ErrorEntry:
    """Return the entry of a new error; its place is that of the nearest caller."""
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
    """Return ``file:line`` of the nearest frame outside of kerneldsl."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(OWN_FOLDERS):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"
