"""Paths of files that a call is given to write or read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from kerneldsl.errors.values import safe_repr

__all__ = ["read_path"]


def read_path(file: Any) -> Path:
    """Return an absolute path; raise `ArgumentError` for what is none, or is hard to type."""
    try:
        text = os.fspath(file)
    except Exception:  # noqa: BLE001 -- a foreign object may raise anything
        text = None
    if not isinstance(text, str):
        raise ArgumentTypeError(
            f"the file is {safe_repr(file)}",
            value=file,
            limit="It must be a path: text, or a pathlib.Path",
        )
    if not text.strip() or any(character < " " for character in text):
        raise ArgumentValueError(
            f"the file is {safe_repr(text)}",
            value=text,
            limit="A path has visible characters, and no control characters",
            remedy="Name it, such as kernels.tar",
        )
    return Path(text).absolute()
