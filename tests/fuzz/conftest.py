"""Prints what the generated programs held."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add the counts, which travel in the test's report, to pytest's summary."""
    from tests.fuzz.test_fuzz import COUNTS_PROPERTY

    for report in terminalreporter.stats.get("passed", []):
        for name, counts in report.user_properties:
            if name == COUNTS_PROPERTY:
                terminalreporter.section(name)
                total = counts["programs"]
                for feature, count in sorted(counts.items(), key=lambda item: -item[1]):
                    terminalreporter.line(f"{feature:24s} {count:6d}  {count / total:6.1%}")
