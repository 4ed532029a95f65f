"""Check paths of files that a call writes or reads, and find files beside a Python file."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.errors.kernels import wrong_type, wrong_value

__all__ = ["check_writable", "find_beside", "path_text", "read_beside", "read_path", "writing"]


def path_text(file: Any) -> str | None:
    """Return a path as text, or ``None`` if it is no path. Never raises."""
    try:
        text = os.fspath(file)
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        return None
    return text if isinstance(text, str) else None


def read_path(file: Any) -> Path:
    """Return an absolute path; raise `ArgumentError` for a value that is no usable path."""
    text = path_text(file)
    if text is None:
        raise wrong_type("the file", file, "It must be a path: text, or a pathlib.Path")
    if not text.strip() or any(character < " " for character in text):
        raise wrong_value(
            "the file",
            text,
            "A path has visible characters, and no control characters",
            "Name it, such as kernels.tar",
        )
    return Path(text).absolute()


@contextmanager
def writing(path: Path, option: str = "") -> Iterator[None]:
    """Raise an `OSError` of writing a file again, as an `ArgumentValueError` that names it.

    `option` is the command-line option that names the file, if any.
    """
    try:
        yield
    except OSError as error:
        raise ArgumentValueError(
            f"{path} cannot be written: {error.strerror or error}",
            value=str(path),
            remedy=f"Choose another file with {option}" if option else "Choose another file",
        ) from error


def check_writable(path: Path, option: str = "") -> None:
    """Raise an error if a file cannot be written, before the work for its contents.

    `option` is that of :func:`writing`.

    - raises `ArgumentValueError` if its folder is missing, it is a folder itself, or the system
      forbids writing it.
    """
    with writing(path, option):
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "It is a folder")
        folder = path.parent
        if not folder.is_dir():
            raise FileNotFoundError(errno.ENOENT, f"There is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


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
