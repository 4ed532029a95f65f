"""The history of errors of devices and their drivers: ``kd.error_log``.

Every error of a driver is recorded when it is made. This includes errors that are handled later,
and errors that a finalizer cannot raise. The history is bounded, may be read and written from any
thread, and costs nothing without errors.

Recording never waits: a finalizer can run at any time, also in a thread that is reading the
history. Errors are put into a queue, and the thread that has the lock moves them to the history.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import IO, TYPE_CHECKING

from kerneldsl.errors import DeviceLostError, KernelError
from kerneldsl.errors.kernels import wrong_value

if TYPE_CHECKING:
    from kerneldsl.contract.error_entries import ErrorEntry

__all__ = ["CATEGORIES", "ErrorLog", "error_log"]

#: Subjects of errors, in the order of a program's life.
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
_ROWS_SHOWN = 20
#: Number of the newest entries that are searched for an equal one.
_LOOKED_BACK = 64
_MAX_SIZE = 1_000_000
_COLUMNS = ("time", "count", "category", "error", "name", "device", "doing", "place")


class ErrorLog:
    """A bounded history of errors.

    Parameters
    ----------
    size : int
        Number of entries, up to a million; the oldest are dropped first.

    Raises
    ------
    ArgumentValueError
        If `size` is not an int from 0 to a million.

    Examples
    --------
    >>> from kerneldsl.errors import DriverError
    >>> log = ErrorLog()
    >>> log.record(DriverError("Could not wait for cuda:0", code=999, name="CUDA_ERROR_UNKNOWN"))
    >>> len(log), log.counts()["system"], log.entries()[0].name
    (1, 1, 'CUDA_ERROR_UNKNOWN')
    """

    def __init__(self, size: int = 1000) -> None:
        if not isinstance(size, int) or not 0 <= size <= _MAX_SIZE:
            raise wrong_value("size", size, f"It must be an int, 0 to {_MAX_SIZE}")
        self._lock = threading.Lock()
        self._incoming: deque[tuple[ErrorEntry, weakref.ref[KernelError]]] = deque()
        self._entries: deque[_Kept] = deque(maxlen=size)
        self._counts = dict.fromkeys(CATEGORIES, 0)

    # ---------------------------------------------------------------- writing

    def record(self, error: KernelError, *, was_swallowed: bool = False) -> None:
        """Record an error. Never waits and never raises.

        Parameters
        ----------
        error : KernelError
            The error; it is recorded once.
        was_swallowed : bool
            Whether the error is not raised.
        """
        from kerneldsl.contract.error_entries import describe

        self._incoming.append((describe(error, was_swallowed), weakref.ref(error)))
        # The thread that holds the lock finds the entry: it looks again before it releases the
        # lock, and a reader moves everything over first.
        while self._incoming and self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def _settle(self) -> None:
        """Move errors from the queue to the history; the lock is held."""
        if not self._incoming:
            return
        from dataclasses import replace

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
        """Return the entry of the same error, or of an earlier call there on a lost device."""
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
        """Return the entries, oldest first."""
        with self._lock:
            self._settle()
            return tuple(kept.entry for kept in self._entries)

    def counts(self) -> Mapping[str, int]:
        """Return the number of errors of each category since the start or the last `clear`.

        Dropped entries and repetitions are counted as well.
        """
        with self._lock:
            self._settle()
            return dict(self._counts)

    def clear(self) -> None:
        """Remove all entries and reset the counts."""
        with self._lock:
            self._incoming.clear()
            self._entries.clear()
            self._counts = dict.fromkeys(CATEGORIES, 0)

    def export(self, file: str | os.PathLike[str] | IO[str]) -> int:
        """Write the history as JSON lines, one object for each entry, oldest first.

        Parameters
        ----------
        file : path or text file
            A file at a path is overwritten, in UTF-8.

        Returns
        -------
        int
            The number of lines.

        Raises
        ------
        ArgumentTypeError, ArgumentValueError
            If it is neither a path nor open for writing, or the file cannot be written.

        Examples
        --------
        >>> import io
        >>> ErrorLog().export(io.StringIO())
        0
        """
        import json

        from kerneldsl.utilities.paths import read_path, writing

        entries = self.entries()
        lines = "".join(json.dumps(entry.to_dict(), ensure_ascii=False) + "\n" for entry in entries)
        write = getattr(type(file), "write", None)
        if callable(write):
            write(file, lines)
            return len(entries)
        path = read_path(file)
        with writing(path):
            path.write_text(lines, encoding="utf-8")
        return len(entries)

    def __len__(self) -> int:
        return len(self.entries())

    def __iter__(self) -> Iterator[ErrorEntry]:
        return iter(self.entries())

    def __bool__(self) -> bool:
        return True  # an empty history is not "no history"

    def __repr__(self) -> str:
        from kerneldsl.utilities.formatting import text_table

        entries = self.entries()
        if not entries:
            return "no errors"
        return f"{self._summary()}\n{text_table(_COLUMNS, _rows(entries))}"

    def _repr_html_(self) -> str:
        from kerneldsl.utilities.formatting import html_table

        entries = self.entries()
        return html_table(_COLUMNS, _rows(entries), caption=self._summary())

    def _summary(self) -> str:
        from kerneldsl.utilities.formatting import format_count

        counts = {category: count for category, count in self.counts().items() if count}
        total = sum(counts.values())
        listed = ", ".join(f"{category} {count}" for category, count in counts.items())
        return format_count(total, "error") + (f": {listed}" if listed else "")


class _Kept:
    """An entry and a weak reference to its error, which must not keep arrays alive."""

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
