"""Plugin of pytest: the processor seconds of each test, its child processes included, by file.

    python -m pytest -p tests.support.cpu_times --cpu-times=times.csv tests/unit

writes a row a test and prints a table of the files. Processor time stays the same when other
programs share the machine, so a part of the suite can be timed while something else runs.
"""

from __future__ import annotations

import csv
import os
from collections import Counter
from collections.abc import Generator
from typing import Any

import pytest

__all__: list[str] = []

_ATTRIBUTE = "cpu_seconds"


def _spent() -> float:
    """Processor seconds of this process, its threads and the children it has waited for."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", metavar="FILE", help="write processor seconds a test as CSV")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Attach what was spent since this test's last phase, which travels to xdist's controller."""
    report = yield
    now = _spent()
    setattr(report, _ATTRIBUTE, now - _Marks.last)
    _Marks.last = now
    return report


class _Marks:
    """Processor seconds when the last phase of a test ended."""

    last = 0.0


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    _Marks.last = _spent()
    return (yield)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    tests: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if hasattr(report, _ATTRIBUTE):
                tests[report.nodeid] += getattr(report, _ATTRIBUTE)
    if not tests:
        return
    files: Counter[str] = Counter()
    for name, seconds in tests.items():
        files[name.partition("::")[0]] += seconds
    terminalreporter.section("processor seconds")
    for name, seconds in [*files.most_common(), ("in all", sum(files.values()))]:
        terminalreporter.line(f"{seconds:9.1f}  {name}")
    path = terminalreporter.config.getoption("--cpu-times")
    if path:
        with open(path, "w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream)
            writer.writerow(("test", "cpu_seconds"))
            writer.writerows((name, f"{seconds:.3f}") for name, seconds in tests.most_common())
