"""Prints what the generated programs held."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add the counts to pytest's summary."""
    from tests.fuzz.test_fuzz import counts

    if counts["programs"]:
        terminalreporter.section("generated kernels")
        total = counts["programs"]
        for name, count in counts.most_common():
            terminalreporter.line(f"{name:24s} {count:6d}  {count / total:6.1%}")
