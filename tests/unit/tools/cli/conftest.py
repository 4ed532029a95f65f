"""What tests of commands share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a command imports from the test's folder goes with the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in sys.modules.keys() - before:
        found = getattr(sys.modules[name], "__dict__", {}).get("__file__")
        if found and Path(found).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of kerneldsl's is set, and the terminal has no width of its own."""
    for name in [n for n in os.environ if n.startswith("KERNELDSL_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)
