"""A browser for each test; without one they are skipped."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, find_chromium


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    executable = find_chromium()
    if executable is None:
        pytest.skip("no Chromium or Chrome is on the search path: apt install chromium")
    with Browser(executable, tmp_path / "profile") as one:
        yield one
