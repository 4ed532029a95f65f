"""The history of what devices and their drivers answered with an error: ``kd.error_log``.

Every error of a driver is written down when it is made, also one that is handled afterwards, and
one that a finalizer swallows because it has nobody to tell. The history is bounded, may be read
and written from any thread, and costs nothing until there is an error.

Writing never waits: a finalizer can run at any time, also in the thread that just reads the
history. Errors are put into a queue, and whoever holds the lock moves them over.
"""

from __future__ import annotations

import datetime
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

from kerneldsl.errors import (
    CompileError,
    DeviceLostError,
    DriverError,
    GraphError,
    KernelError,
    KernelTypingError,
    TargetUnavailableError,
    ToolMissingError,
)
from kerneldsl.tables import html_table, text_table

__all__ = ["CATEGORIES", "ErrorEntry", "ErrorLog", "error_log"]

#: What an error can be about, in the order of a program's life.
CATEGORIES = (
    "initialization",
    "device",
    "memory",
    "kernel",
    "launch",
    "stream",
    "compile",
    "system",
)
#: Categories of errors that no driver answered with.
_CATEGORY_OF_CLASS: tuple[tuple[type[KernelError], str], ...] = (
    (TargetUnavailableError, "initialization"),
    (CompileError, "compile"),
    (KernelTypingError, "compile"),
    (ToolMissingError, "compile"),
    (GraphError, "stream"),
)

_ROWS_SHOWN = 20
#: How many of the newest entries are searched for one that is the same.
_LOOKED_BACK = 64
_COLUMNS = ("time", "count", "category", "error", "name", "device", "doing", "place")
_FOLDER = str(Path(__file__).parents[1])
#: Folders whose frames are not the user's.
_OUR_FOLDERS = tuple(
    os.path.join(_FOLDER, name) + os.sep for name in ("kerneldsl", "targets", "stdlib_kernels")
)


@dataclass(frozen=True)
class ErrorEntry:
    """One error, as the history keeps it.

    Parameters
    ----------
    time : str
        When it was made: ISO 8601, UTC.
    category : str
        One of `CATEGORIES`.
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


class ErrorLog:
    """A bounded history of errors.

    Parameters
    ----------
    size : int
        How many entries are kept; the oldest go first.

    Examples
    --------
    >>> from kerneldsl.errors import DriverError
    >>> log = ErrorLog()
    >>> log.record(DriverError("Could not wait for cuda:0", code=999, name="CUDA_ERROR_UNKNOWN"))
    >>> len(log), log.counts()["system"], log.entries()[0].name
    (1, 1, 'CUDA_ERROR_UNKNOWN')
    """

    def __init__(self, size: int = 1000) -> None:
        self._lock = threading.Lock()
        self._incoming: deque[tuple[ErrorEntry, weakref.ref[KernelError]]] = deque()
        self._entries: deque[_Kept] = deque(maxlen=size)
        self._counts = dict.fromkeys(CATEGORIES, 0)

    # ---------------------------------------------------------------- writing

    def record(self, error: KernelError, *, was_swallowed: bool = False) -> None:
        """Write an error down. Never waits and never raises.

        Parameters
        ----------
        error : KernelError
            One that was written down before is not written down again.
        was_swallowed : bool
            Mark it as one that nobody is told of.
        """
        self._incoming.append((_describe(error, was_swallowed), weakref.ref(error)))
        # Whoever holds the lock finds the entry: the holder looks again before it lets go, and a
        # reader moves everything over first.
        while self._incoming and self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def _settle(self) -> None:
        """Move over what came in; the lock is held."""
        while self._incoming:
            entry, reference = self._incoming.popleft()
            known = self._find(entry, reference)
            if known is None:
                self._counts[entry.category] += 1
                self._entries.append(_Kept(entry, reference))
            elif known.error() is not None and known.error() is reference():
                if entry.was_swallowed:
                    known.entry = replace(known.entry, was_swallowed=True)
            else:
                self._counts[entry.category] += 1
                known.entry = replace(known.entry, count=known.entry.count + 1)

    def _find(self, entry: ErrorEntry, reference: weakref.ref[KernelError]) -> _Kept | None:
        """The entry of the same error, or of an earlier call of that place on a lost device."""
        error = reference()
        is_repeat = entry.error == DeviceLostError.__name__
        for known in islice(reversed(self._entries), _LOOKED_BACK):
            if error is not None and known.error() is error:
                return known
            if is_repeat and known.is_same_place(entry):
                return known
        return None

    # ---------------------------------------------------------------- reading

    def entries(self) -> tuple[ErrorEntry, ...]:
        """Return what is kept, oldest first."""
        with self._lock:
            self._settle()
            return tuple(kept.entry for kept in self._entries)

    def counts(self) -> Mapping[str, int]:
        """Return how many errors of each category there were since the start or the last `clear`.

        What the history has no room for any more still counts, and so does every repetition.
        """
        with self._lock:
            self._settle()
            return dict(self._counts)

    def clear(self) -> None:
        """Forget everything, counts included."""
        with self._lock:
            self._incoming.clear()
            self._entries.clear()
            self._counts = dict.fromkeys(CATEGORIES, 0)

    def export(self, file: str | os.PathLike[str] | IO[str]) -> int:
        """Write the history as JSON lines, one object for each entry, oldest first.

        Parameters
        ----------
        file : path or text file
            A path is written anew, in UTF-8.

        Returns
        -------
        int
            The number of lines.

        Raises
        ------
        OSError
            The file cannot be written.
        """
        import json

        entries = self.entries()
        lines = "".join(json.dumps(entry.to_dict(), ensure_ascii=False) + "\n" for entry in entries)
        if isinstance(file, (str, os.PathLike)):
            Path(file).write_text(lines, encoding="utf-8")
        else:
            file.write(lines)
        return len(entries)

    def __len__(self) -> int:
        return len(self.entries())

    def __iter__(self) -> Iterator[ErrorEntry]:
        return iter(self.entries())

    def __bool__(self) -> bool:
        return True  # an empty history is not "no history"

    def __repr__(self) -> str:
        entries = self.entries()
        if not entries:
            return "no errors"
        return f"{self._summary()}\n{text_table(_COLUMNS, _rows(entries))}"

    def _repr_html_(self) -> str:
        entries = self.entries()
        return html_table(_COLUMNS, _rows(entries), caption=self._summary())

    def _summary(self) -> str:
        counts = {category: count for category, count in self.counts().items() if count}
        total = sum(counts.values())
        listed = ", ".join(f"{category} {count}" for category, count in counts.items())
        return f"{total} error{'s' * (total != 1)}" + (f": {listed}" if listed else "")


class _Kept:
    """An entry, and the error it is of; the error's traceback must not keep arrays alive."""

    __slots__ = ("entry", "error")

    def __init__(self, entry: ErrorEntry, error: weakref.ref[KernelError]) -> None:
        self.entry = entry
        self.error = error

    def is_same_place(self, other: ErrorEntry) -> bool:
        mine = self.entry
        return (mine.error, mine.device, mine.place, mine.thread) == (
            other.error,
            other.device,
            other.place,
            other.thread,
        )


def _describe(error: KernelError, was_swallowed: bool) -> ErrorEntry:
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
    """``file:line`` of the nearest frame that is not kerneldsl's own."""
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_OUR_FOLDERS):
        frame = frame.f_back  # type: ignore[assignment]
    return "" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _rows(entries: tuple[ErrorEntry, ...]) -> list[tuple[object, ...]]:
    return [
        tuple(getattr(e, column) or None for column in _COLUMNS) for e in entries[-_ROWS_SHOWN:]
    ]


#: The history of this process, ``kd.error_log``.
error_log = ErrorLog()


def _open_in_child() -> None:
    error_log._lock = threading.Lock()  # another thread may have held it when the process forked


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open_in_child)
