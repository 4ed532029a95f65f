"""Fixtures that every suite shares."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

from tests.cache.trials import PROPERTY
from tests.support.extent import IS_QUICK, examples, is_full
from tests.support.seeds import fresh_rng

# A first example imports and compiles, and other programs may share the machine.
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=examples(100),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("suite")

# A compiler makes many objects and few cycles: collected as often as usual, they cost a twentieth
# of a run, and the trees of all sources more than it takes to parse them.
gc.set_threshold(50_000, 20, 100)

# Tests see what is compiled now, not what an earlier run has left; those of the cache turn it on.
os.environ.setdefault("KERNELDSL_CACHE", "off")

# Where a service runs the tests, these would color what commands write, or set its width.
for _name in ("COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS"):
    os.environ.pop(_name, None)

# A shell has what it starts with ``&`` ignore interrupts, and so would all processes of the tests.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


#: File, topic and first word of ``…/test_kernels.py::test_case[cpu-groups.sorted_pairs_of_33]``.
_CONFORMANCE_TOPIC = re.compile(
    r"(tests/(?:conformance/test_kernels|ptx/test_conformance)\.py)::\w+\[(?:\w+-)?(\w+(?:\.[a-z]+)?)"
)

#: File and function of ``…/test_reductions.py::test_any_axes_and_layout[numpy-cpu-mean-int8]``.
_LIBRARY_CALL = re.compile(r"(tests/library/\w+\.py)::\w+\[\w+-\w+-([^-\]]+)")

_TESTS = Path(__file__).parent

#: Tests that use one package, which is built for them.
_SHIPPED = re.compile(r"(tests/shipping)/")

#: Long tests that have nothing in common with others of their file.
_ALONE = re.compile(r"test_generated_programs|/test_odd_values\.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: Any, log: Any) -> Any:
    """One process runs all tests of a file, in which a kernel is then compiled once.

    Of the longest files it is a topic of the conformance suite, or of a large topic the cases whose
    names begin with the same word, a function of the library, a part of the fuzz, and what is given
    odd values. Tests of shipping are together. ``--dist`` chooses another way to share tests out.
    """
    if config.getoption("dist") != "load":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByKernels(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            patterns = (_CONFORMANCE_TOPIC, _LIBRARY_CALL, _SHIPPED)
            topic = next((found for p in patterns if (found := p.match(nodeid))), None)
            if topic is not None:
                return "::".join(topic.groups())
            return nodeid if _ALONE.search(nodeid) else super()._split_scope(nodeid)

    # In the order of the folders the long files come early, in that of their sizes not.
    config.option.loadscopereorder = False
    return ByKernels(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Read no examples of docstrings in tests: those are in the packages."""
    collectors = yield
    if not file_path.is_relative_to(_TESTS):
        return collectors
    return [each for each in collectors if not isinstance(each, DoctestModule)]


def pytest_pycollect_makeitem(obj: object) -> list[Any] | None:
    """Leave what is marked ``full`` out of a quick run before a test for each parameter is made."""
    if not IS_QUICK or not isinstance(obj, FunctionType | type):
        return None  # a module may look long for a mark that it does not have
    return [] if is_full(obj) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out of a quick run what is marked ``full``, and most examples of the library.

    Those are functions that the library's own tests call, and each compiles kernels.
    """
    if not IS_QUICK:
        return
    shown = [item for item in items if item.nodeid.startswith("stdlib_kernels/")]
    beyond = {item for item in items if item.get_closest_marker("full")}
    beyond |= set(shown) - set(shown[::16])
    config.hook.pytest_deselected(items=[item for item in items if item in beyond])
    items[:] = [item for item in items if item not in beyond]


@pytest.fixture
def rng() -> np.random.Generator:
    """A generator with a fresh seed, which pytest shows when the test fails."""
    return fresh_rng()


@pytest.fixture
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test imports from its folder, as a command does, goes with the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in sys.modules.keys() - before:
        found = getattr(sys.modules[name], "__dict__", {}).get("__file__")
        if found and Path(found).is_relative_to(tmp_path):
            del sys.modules[name]


@pytest.fixture(scope="module", autouse=True)
def usual_recursion_limit() -> None:
    """The interpreter's own limit; jedi sets a higher one where something imports it."""
    sys.setrecursionlimit(1000)


@pytest.fixture(scope="module", autouse=True)
def small_heap() -> None:
    """Garbage is looked for among what the module's tests make, not in all that was imported."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """The table of what came of trials of the cache, where there were any."""
    rows = {
        report.nodeid: row
        for reports in terminalreporter.stats.values()
        for report in reports
        for name, row in getattr(report, "user_properties", ())
        if name == PROPERTY
    }
    table: dict[str, Counter[str]] = {}
    for test, row in sorted(rows.items()):
        name = test.partition("::")[2].partition("[")[0].removeprefix("test_").replace("_", " ")
        for line in (name, "in all"):
            table.setdefault(line, Counter()).update({"trials": sum(row.values()), **row})
    if not table:
        return
    table["in all"] = table.pop("in all")  # the last line
    terminalreporter.section("trials of the cache")
    outcomes = tuple(table["in all"])
    terminalreporter.line(f"{'':60}" + "".join(f"{outcome:>8}" for outcome in outcomes))
    for name, counts in table.items():
        line = "".join(f"{counts[outcome]:8}" for outcome in outcomes)
        terminalreporter.line(f"{name[:60]:60}" + line)
