"""Prints what the generated programs were made of."""

from __future__ import annotations

from collections import Counter
from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add up the counts, which travel in the tests' reports, in pytest's summary."""
    from tests.fuzz.test_fuzz import COUNTS_PROPERTY

    found: Counter[str] = Counter()
    for report in terminalreporter.stats.get("passed", []):
        for name, counts in report.user_properties:
            if name == COUNTS_PROPERTY:
                found.update(counts)
    if found:
        terminalreporter.section(COUNTS_PROPERTY)
        for feature, count in found.most_common():
            terminalreporter.line(f"{feature:45s} {count:6d}  {count / found['programs']:6.1%}")
