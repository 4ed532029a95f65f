"""What tests of tuning share: a cache of their own, and a clock that is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerneldsl.launch.measured import Measured, PlanChoices
from kerneldsl.tuning.compile_ahead import CompileAhead
from kerneldsl.tuning.session import Session


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE", "1")
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def timed_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[PlanChoices], float]], None]:
    """Replace the clock: a plan takes as long as a function of it says. Nothing is compiled."""

    def install(clock: Callable[[PlanChoices], float]) -> None:
        def measure(session: Any, plan: PlanChoices) -> Measured:
            time = clock(plan)
            return Measured(time, time, time, 7)

        monkeypatch.setattr(Session, "_measure", measure)
        monkeypatch.setattr(Session, "compare", lambda session: None)
        monkeypatch.setattr(CompileAhead, "prepare", lambda ahead, number: None)

    return install
