"""The history of what devices and their drivers answered with an error: ``kd.error_log``.

Every error of a driver is written down when it is made, also one that is handled afterwards, and
one that a finalizer swallows because it has nobody to tell. The history is bounded, may be read
and written from any thread, and costs nothing until there is an error.

Writing never waits: a finalizer can run at any time, also in the thread that just reads the
history. Errors are put into a queue, and whoever holds the lock moves them over.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import IO, TYPE_CHECKING

from kerneldsl.errors import ArgumentValueError, DeviceLostError, KernelError
from kerneldsl.errors.values import safe_repr

if TYPE_CHECKING:
    from kerneldsl.contract.error_entries import ErrorEntry

__all__ = ["CATEGORIES", "ErrorLog", "error_log"]

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
_ROWS_SHOWN = 20
#: How many of the newest entries are searched for one that is the same.
_LOOKED_BACK = 64
_MAX_SIZE = 1_000_000
_COLUMNS = ("time", "count", "category", "error", "name", "device", "doing", "place")


class ErrorLog:
    """A bounded history of errors.

    Parameters
    ----------
    size : int
        How many entries are kept, up to a million; the oldest go first.

    Raises
    ------
    ArgumentValueError
        If the size is no int from 0 to a million.

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
            raise ArgumentValueError(
                f"size is {safe_repr(size)}",
                value=size,
                limit=f"It must be an int, 0 to {_MAX_SIZE}",
            )
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
        from kerneldsl.contract.error_entries import describe

        self._incoming.append((describe(error, was_swallowed), weakref.ref(error)))
        # Whoever holds the lock finds the entry: the holder looks again before it lets go, and a
        # reader moves everything over first.
        while self._incoming and self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def _settle(self) -> None:
        """Move over what came in; the lock is held."""
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
        ArgumentTypeError, ArgumentValueError
            It is neither a path nor open for writing, or the file cannot be written.
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
