"""Base of every error of kerneldsl: its fields, its message, its source location."""

from __future__ import annotations

import linecache
import traceback
from dataclasses import dataclass  # noqa: TID251 -- errors import no utilities
from typing import Any

from kerneldsl.errors.values import safe_repr

__all__ = ["KernelError", "KernelWarning", "SourceLocation"]


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A place in the source of a kernel.

    Parameters
    ----------
    filename : str
        The file, or the interpreter's name of a cell or of text passed to exec.
    lineno : int
        Line, counted from 1.
    col_offset, end_col_offset : int or None
        Columns in characters, counted from 0; ``None`` if only the line is known.
    function : str
        Qualified name of the kernel or device function.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> str(kd.SourceLocation("kernels.py", 12))
    'kernels.py:12'
    """

    filename: str
    lineno: int
    col_offset: int | None = None
    end_col_offset: int | None = None
    function: str = ""

    @property
    def line(self) -> str:
        """The text of the line, without its end; empty if the source is not available."""
        return linecache.getline(self.filename, self.lineno).rstrip("\n")

    def __str__(self) -> str:
        return f"{self.filename}:{self.lineno}"

    def render(self) -> str:
        """Return ``file:line``, the line itself, and a caret under the columns."""
        text = self.line
        head = f"{self}" + (f", in {self.function}" if self.function else "")
        if not text.strip():
            return head
        indent = len(text) - len(text.lstrip())
        shown = text.strip()
        lines = [head, "    " + shown]
        if self.col_offset is not None:
            start = max(0, self.col_offset - indent)
            end = self.end_col_offset - indent if self.end_col_offset is not None else start + 1
            end = min(max(end, start + 1), max(len(shown), start + 1))
            lines.append("    " + " " * start + "^" * (end - start))
        return "\n".join(lines)


def compose(
    what: str,
    where: SourceLocation | None,
    limit: str | None,
    remedy: str | None,
    chain: tuple[str, ...],
) -> str:
    sentence = what if what.endswith((".", "!", "?")) else what + "."
    parts = [sentence]
    if limit:
        parts.append(limit if limit.endswith(".") else limit + ".")
    if remedy:
        parts.append(remedy if remedy.endswith(".") else remedy + ".")
    text = " ".join(parts)
    if where is not None:
        text += "\n  at " + where.render().replace("\n", "\n  ")
    for link in chain:
        text += "\n  " + link.replace("\n", "\n  ")
    return text


def _portable(value: Any) -> Any:
    """Return the value if it certainly can be pickled, else its repr."""
    if value is None or isinstance(value, (bool, int, float, complex, str, bytes)):
        return value
    if type(value) in (tuple, list):
        return type(value)(_portable(element) for element in value)
    return safe_repr(value)


def _rebuild(kind: type[KernelError], args: tuple[Any, ...], fields: dict[str, Any]) -> KernelError:
    # Constructors take keywords that differ from class to class; the message is made already.
    error = kind.__new__(kind, *args)
    error.args = args  # an OSError takes them in its constructor alone
    for name, value in fields.items():
        setattr(error, name, value)
    error._message_changed()
    return error


class KernelError(Exception):
    """Root of all errors of kerneldsl.

    Parameters
    ----------
    what : str
        The problem, with the value found.
    where : SourceLocation, optional
        The place in the user's kernel.
    value : object, optional
        The offending value itself, for programs.
    limit : str, optional
        The limit or rule, and its origin.
    remedy : str, optional
        The suggested change.
    chain : tuple of str, optional
        Further lines of explanation.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> try:
    ...     kd.zeros(-1)
    ... except kd.KernelError as error:
    ...     print(error.value, "|", error.limit)
    -1 | Extents must be 0 or more, and fit int64
    """

    def __init__(
        self,
        what: str,
        *,
        where: SourceLocation | None = None,
        value: Any = None,
        limit: str | None = None,
        remedy: str | None = None,
        chain: tuple[str, ...] = (),
    ) -> None:
        self.what = what
        self.where = where
        self.value = value
        self.limit = limit
        self.remedy = remedy
        self.chain = chain
        super().__init__(compose(what, where, limit, remedy, chain))
        self._message_changed()

    @property
    def details(self) -> str:
        """The whole traceback, with the frames of libraries and what they said, as text."""
        kept: traceback.TracebackException | str | None = self.__dict__.get("_details")
        if kept is None:
            kept = traceback.TracebackException.from_exception(self)
        return kept if isinstance(kept, str) else "".join(kept.format())

    def keep_details(self) -> None:
        """Keep what :attr:`details` shows now, before the traceback is shortened; once."""
        if "_details" not in self.__dict__:
            # The frames are left out, since they would keep the user's arrays alive.
            self._details = traceback.TracebackException.from_exception(self, lookup_lines=False)

    def _message_changed(self) -> None:
        """Bring up to date what a subclass has made of the message."""

    def add_line(self, line: str) -> None:
        """Add a line of explanation to the message, while the error is on its way to the user."""
        self.chain = (*self.chain, line)
        self._compose_again()

    def move(self, where: SourceLocation) -> None:
        """Give it another place, while it is on its way to the user."""
        self.where = where
        self._compose_again()

    def _compose_again(self) -> None:
        message = compose(self.what, self.where, self.limit, self.remedy, self.chain)
        self.args = (message, *self.args[1:])
        self._message_changed()

    def __reduce__(self) -> Any:
        """Travel between processes, and be copied, with all fields and without the traceback."""
        fields = {**self.__dict__, "value": _portable(self.value)}
        if "_details" in fields:
            fields["_details"] = self.details
        return _rebuild, (type(self), self.args, fields)


class KernelWarning(UserWarning):
    """Root of the warnings of kerneldsl."""
