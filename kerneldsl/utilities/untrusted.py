"""Reading files and JSON that somebody else named or wrote, without waiting or running out."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

__all__ = ["NotPlainFileError", "open_at_once", "parse_json", "read_plain_file"]

# Neither exists on Windows. Without O_NONBLOCK, opening a pipe would wait for its writer.
_FLAGS = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class NotPlainFileError(OSError):
    """The path names a folder, a pipe or a device."""


def open_at_once(path: str, flags: int) -> int:
    """Open a file without waiting, for the parameter `opener` of :func:`open`.

    ``os.fdopen`` would leave the descriptor of a folder open.
    """
    return os.open(path, flags | _FLAGS)


def read_plain_file(path: str | Path, max_bytes: int) -> tuple[bytes, os.stat_result]:
    """Read the beginning of a plain file, or of the one that a link leads to.

    Return the contents, at most `max_bytes`, and the status of the very file that was read. Raises
    `NotPlainFileError` if it is something else, `OSError` as the system does.
    """
    with open(path, "rb", opener=open_at_once) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotPlainFileError(f"{path} is not a regular file")
        return file.read(max_bytes), status


def parse_json(data: bytes | str) -> Any:
    """Parse JSON.

    Raises `ValueError` if it is invalid, or nested so deeply that it cannot be read.
    """
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deeply") from error
