"""Functions from text, with source that :mod:`inspect` and kerneldsl can find."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

__all__ = ["exec_source"]

_numbers = itertools.count()


def exec_source(text: str, label: str = "text") -> dict[str, Any]:
    """Run `text` as a module of its own and return its namespace.

    The text is registered with :mod:`linecache` under a fresh name.
    """
    filename = f"<{label} {next(_numbers)}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    namespace: dict[str, Any] = {"__name__": f"{label}_{next(_numbers)}"}
    exec(compile(text, filename, "exec"), namespace)
    return namespace
