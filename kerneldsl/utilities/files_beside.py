"""Files that a Python file names relative to its own folder, also in a package without it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

__all__ = ["find_beside", "read_beside"]


def find_beside(path: str, written_in: str, module: Mapping[str, Any]) -> str:
    """Return the place of a file.

    - `path`: the path, relative to the folder of the Python file.
    - `written_in`: the Python file, as its code has it. If no such file exists, the code may be
      from a zip archive, or from a ``.pyc`` file alone. A notebook's cell is in the current folder.
    - `module`: the globals of the code's module.
    """
    folder = ""
    if os.path.isfile(written_in):
        folder = os.path.dirname(written_in)
    elif written_in.endswith(".py") and isinstance(module.get("__file__"), str):
        folder = os.path.dirname(module["__file__"])
    return os.path.normpath(os.path.join(folder, path))


def read_beside(place: str, module: Mapping[str, Any]) -> bytes:
    """Read the file at a place of :func:`find_beside`, also in a zip archive.

    Raises `OSError`.
    """
    try:
        with open(place, "rb") as file:
            return file.read()
    except OSError:
        get_data = getattr(module.get("__loader__"), "get_data", None)
        if get_data is None or os.path.isfile(place):
            raise
        try:
            return bytes(get_data(place))
        except OSError:
            pass
        raise
