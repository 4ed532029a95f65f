"""Plugin of pytest for CuPy's tests: puts the library in the place of CuPy, and counts its tests.

A test counts if it accesses a function of the library; the others are skipped after they ran.
Expected failures are in ``expected-failures.txt``, and one that passes is an error.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import kerneldsl as kd
from tests.library.cupy_suite.namespace import install, named

#: The folder of CuPy's sources, and whether NumPy takes the place of the library.
CHECKOUT, WITH_NUMPY = Path(os.environ["CUPY_CHECKOUT"]), bool(os.environ.get("CUPY_WITH_NUMPY"))
_EXPECTED = Path(__file__).with_name("expected-failures.txt")
#: Name of a report's property that has the names of functions.
_NAMES = "functions of the library"

kd.use("cpu")
install(CHECKOUT, with_numpy=WITH_NUMPY)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lines = _EXPECTED.read_text(encoding="utf-8").splitlines()
    expected = {line for line in lines if line and not line.startswith("#")}
    for item in items:
        if not WITH_NUMPY and item.nodeid in expected:
            item.add_marker(pytest.mark.xfail(strict=True, reason="is in expected-failures.txt"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    named.clear()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo[Any]) -> Generator[None, Any, Any]:
    report = yield
    is_over = call.when == "call" or report.failed
    if is_over and not named and not report.skipped:
        report.outcome, report.longrepr = "skipped", ("", 0, "names no function of the library")
    report.user_properties.append((_NAMES, sorted(named)))
    return report


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count outcomes by function."""
    counts: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "xfailed", "xpassed"):
        for report in terminalreporter.stats.get(outcome, ()):
            for name in dict(report.user_properties).get(_NAMES, ()):
                counts.setdefault(name, Counter())[outcome] += 1
    terminalreporter.section("tests of each function")
    for name, found in sorted(counts.items()):
        text = ", ".join(f"{number} {outcome}" for outcome, number in found.items())
        terminalreporter.write_line(f"{name:<17} {text}")
