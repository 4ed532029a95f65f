"""IPython's shell in the process of the tests, which it leaves as it was."""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["interactive_shell"]


@contextmanager
def interactive_shell() -> Iterator[Any]:
    """Give a shell without a history on the disk; then take its module and its names back."""
    shells = pytest.importorskip("IPython.core.interactiveshell")
    from traitlets.config import Config

    main, names = sys.modules["__main__"], set(vars(builtins))
    try:
        yield shells.InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    finally:
        sys.modules["__main__"] = main
        for name in vars(builtins).keys() - names:
            delattr(builtins, name)
