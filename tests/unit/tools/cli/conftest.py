"""What tests of commands share."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def commands_own_modules(own_modules: None) -> None:
    """What a command imports from the test's folder goes with the test."""


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of kerneldsl's is set, and the terminal has no width of its own."""
    for name in [n for n in os.environ if n.startswith("KERNELDSL_")]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("COLUMNS", raising=False)
