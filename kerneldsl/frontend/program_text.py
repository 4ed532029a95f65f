"""The text of a program that is in no file: of ``python -c``, and of ``python -``.

:mod:`linecache` knows neither. The command line has the first; the second can be read again where
standard input is a file.
"""

from __future__ import annotations

import linecache
import os
import stat
import sys
import textwrap
from collections.abc import Iterator, Sequence

__all__ = ["how_to_give_text", "is_of_program", "register_text", "texts_of_program"]

#: What the interpreter calls the program of ``python -c``, and that of standard input.
_COMMAND, _INPUT = "<string>", "<stdin>"
#: The name of the first in messages: exec'd text has the interpreter's name for it too.
_SHOWN = {_COMMAND: "<python -c>", _INPUT: _INPUT}
#: Options of the interpreter whose value may be the next argument.
_WITH_VALUE = frozenset("WX")

_HOW_TO_REGISTER = (
    "Put the function in a file or a notebook cell, or register its text before the function is "
    "used: linecache.cache[filename] = (len(text), None, text.splitlines(True), filename), with "
    "the filename that was given to compile()"
)


def is_of_program(filename: str) -> bool:
    """Return whether a name is one of those that the interpreter gives to text in no file."""
    return filename in _SHOWN


def texts_of_program(filename: str) -> Iterator[str]:
    """Find texts that may be the program's; callers compare it with the code.

    Parameters
    ----------
    filename : str
        What the interpreter calls the text.
    """
    if filename == _COMMAND:
        text = _command(sys.orig_argv)
        if text is not None:
            yield text
            yield textwrap.dedent(text)  # as Python 3.14 does
    elif filename == _INPUT and not _is_interactive():
        text = _input_file()
        if text is not None:
            yield text


def register_text(filename: str, text: str) -> str:
    """Register a text that was found with linecache, for messages; returns its name there."""
    shown = _SHOWN[filename]
    linecache.cache[shown] = (len(text), None, text.splitlines(keepends=True), shown)
    return shown


def how_to_give_text(filename: str) -> str:
    """Say what to do if there is no text of a name."""
    if filename != _INPUT:
        return _HOW_TO_REGISTER
    if _is_interactive():
        return (
            "Put the function in a file and import it, or work in IPython or with Python 3.13 or "
            "later: before, Python's prompt keeps no text of what was typed"
        )
    return (
        "Put the program in a file and run that: `python program.py`, or `python - < program.py`; "
        "of what comes through a pipe Python keeps no text"
    )


def _is_interactive() -> bool:
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)


def _command(arguments: Sequence[str]) -> str | None:
    """Find the text that follows ``-c`` on the interpreter's command line."""
    rest = iter(arguments[1:])
    for argument in rest:
        if argument.startswith("--"):
            if argument == "--check-hash-based-pycs":
                next(rest, None)
            continue
        if not argument.startswith("-") or argument == "-":
            return None
        for at, option in enumerate(argument[1:], 2):
            if option == "c":
                return argument[at:] or next(rest, None)
            if option == "m":
                return None
            if option in _WITH_VALUE:
                if at == len(argument):
                    next(rest, None)
                break
    return None


def _input_file() -> str | None:
    """Read standard input again, if it is a file, without moving in it."""
    try:
        information = os.fstat(0)
        if stat.S_ISREG(information.st_mode) and hasattr(os, "pread"):
            return os.pread(0, information.st_size, 0).decode()
    except (OSError, UnicodeDecodeError):
        pass
    return None
