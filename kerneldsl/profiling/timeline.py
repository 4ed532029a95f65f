"""Files of :meth:`Profile.timeline`: a trace or a picture, by the ending."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.values import safe_repr
from kerneldsl.profiling.activities import Activity
from kerneldsl.utilities.paths import check_writable, read_path, writing

if TYPE_CHECKING:
    from kerneldsl.profiling.work import Work

__all__ = ["read_timeline", "write_timeline"]

#: Suffixes of traces, and of pictures, which matplotlib writes.
_TRACE = ".json"
_PICTURES = (".pdf", ".png", ".svg")


def read_timeline(file: Any) -> Path:
    """Return the path of a timeline that can be written, as far as that is known before.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        If it is no path, has another ending, or cannot be written.
    ToolMissingError
        If it is a picture, and matplotlib is not installed.
    """
    path = read_path(file)
    ending = path.suffix.lower()
    if ending not in (_TRACE, *_PICTURES):
        text = os.fspath(file)
        raise ArgumentValueError(
            f"the timeline was to be written to {safe_repr(text)}",
            value=text,
            limit=f"A trace ends in {_TRACE}, a picture in {', '.join(_PICTURES)}",
            remedy=f"Name it, such as {path.stem or 'timeline'}{_TRACE}",
        )
    check_writable(path)
    if ending in _PICTURES:
        from kerneldsl.profiling.picture import check_matplotlib

        check_matplotlib()
    return path


def write_timeline(
    path: Path, activities: Sequence[Activity], works: Sequence[Work | None]
) -> None:
    """Write activities to a file that :func:`read_timeline` has read.

    Parameters
    ----------
    path : Path
        The file.
    activities : sequence of Activity
        All of a profile.
    works : sequence of Work or None
        The work of each, for a trace; empty where it was not asked for.

    Raises
    ------
    ArgumentValueError
        If the file cannot be written.
    """
    with writing(path):
        if path.suffix.lower() == _TRACE:
            from kerneldsl.profiling.trace import write_trace

            write_trace(path, activities, works)
        else:
            from kerneldsl.profiling.picture import write_picture

            write_picture(path, activities)
