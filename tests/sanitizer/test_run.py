"""What ``make sanitize`` concludes, with a sanitizer that only pretends; and what it selects."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kerneldsl.errors import BarrierDivergenceWarning
from targets.cpu.intrinsics.table import LOWERINGS, Refused
from tests.conformance.kernels import CASES
from tests.sanitizer import planted, run
from tests.sanitizer.planted import PLANTED
from tests.sanitizer.run import FOUND_STATUS, TOOLS, Job, judge
from tests.sanitizer.selection import BARRIER_TOPICS, WORDS, intrinsics_of, sanitized_cases

#: Stands for compute-sanitizer: writes what the test prepared for the tool, planted or not.
_FAKE = """#!/bin/sh
tool=$2
case "$*" in *planted*) kind=planted;; *) kind=cases;; esac
env | grep '^KERNELDSL_' | sort > "{folder}/$tool-$kind.env"
cat "{folder}/$tool-$kind.answer"
exit "$(cat "{folder}/$tool-$kind.status")"
"""


def _summary(tool: str, count: int) -> str:
    if tool == "racecheck":
        return (
            f"========= RACECHECK SUMMARY: {count} hazards displayed ({count} errors, 0 warnings)\n"
        )
    return f"========= ERROR SUMMARY: {count} errors\n"


def _found(tool: str) -> str:
    fault = PLANTED[tool]
    return f"========= {fault.report} ... at {fault.kernel}+0x80\n{_summary(tool, 1)}"


def _clean(tool: str) -> str:
    return f"{len(sanitized_cases())} passed in 9.9s\n{_summary(tool, 0)}"


@pytest.fixture
def sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Prepare a sanitizer that answers as a right one does; returns what changes an answer."""
    script = tmp_path / "compute-sanitizer"
    script.write_text(_FAKE.format(folder=tmp_path))
    script.chmod(0o755)
    monkeypatch.setattr(run, "find_sanitizer", lambda: str(script))

    def answer(tool: str, kind: str, text: str, status: int) -> None:
        (tmp_path / f"{tool}-{kind}.answer").write_text(text)
        (tmp_path / f"{tool}-{kind}.status").write_text(str(status))

    for tool in TOOLS:
        answer(tool, "planted", _found(tool), FOUND_STATUS)
        answer(tool, "cases", _clean(tool), 0)
    return answer


def test_all_is_well(sanitizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr().out
    assert shown.count("  found\n") == shown.count("  nothing found\n") == len(TOOLS)
    logs = {path.name for path in (tmp_path / "out").iterdir()}
    assert logs == {f"{tool}-{kind}.log" for tool in TOOLS for kind in ("planted", "cases")}


def test_memory_is_not_pooled_and_nothing_falls_back(sanitizer, tmp_path: Path) -> None:
    run.main(["--out", str(tmp_path / "out"), "--tool", "memcheck"])
    for kind in ("planted", "cases"):
        given = (tmp_path / f"memcheck-{kind}.env").read_text().split()
        assert {"KERNELDSL_POOL=off", "KERNELDSL_FALLBACK=never"} <= set(given)


@pytest.mark.parametrize("tool", TOOLS)
def test_a_planted_fault_that_is_not_found_is_a_failure(
    sanitizer, tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sanitizer(tool, "planted", _summary(tool, 0), 0)
    assert run.main(["--out", str(tmp_path)]) == 1
    assert re.search(
        rf"{tool}-planted .*FAILED: the planted fault was not found", capsys.readouterr().out
    )


@pytest.mark.parametrize("tool", TOOLS)
def test_a_finding_in_the_cases_is_a_failure(
    sanitizer, tool: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = _clean(tool).replace(_summary(tool, 0), _summary(tool, 3))
    sanitizer(tool, "cases", text, FOUND_STATUS)
    assert run.main(["--out", str(tmp_path)]) == 1
    assert re.search(rf"{tool}-cases .*FAILED: 3 reported", capsys.readouterr().out)


def test_another_fault_than_the_planted_one_does_not_count() -> None:
    job = Job("memcheck", is_planted=True)
    text = _found("memcheck").replace("store_past_the_end", "another_kernel")
    assert "no 'store_past_the_end' in the log" in (judge(job, FOUND_STATUS, text, 7) or "")


@pytest.mark.parametrize(
    ("text", "status", "why"),
    [
        ("7 passed in 1 s\n", 0, "no summary"),
        ("6 passed, 1 skipped\n" + _summary("memcheck", 0), 0, "6 of 7 cases passed"),
        ("7 skipped\n" + _summary("memcheck", 0), 0, "0 of 7 cases passed"),
        ("6 passed, 1 failed\n" + _summary("memcheck", 0), 1, "ended with status 1"),
        ("7 passed\n" + _summary("memcheck", 0), FOUND_STATUS, "reported in the cases"),
    ],
)
def test_cases_that_were_not_all_seen_are_a_failure(text: str, status: int, why: str) -> None:
    assert why in (judge(Job("memcheck", is_planted=False), status, text, 7) or "")


def test_without_the_sanitizer_it_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert run.main(["--out", str(tmp_path)]) == 1
    assert "comes with the CUDA toolkit" in capsys.readouterr().err


def test_every_tool_has_a_planted_fault() -> None:
    assert set(PLANTED) == set(TOOLS)


def test_every_intrinsic_and_every_barrier_case_is_selected() -> None:
    selected = sanitized_cases()
    # What the CPU refuses is in no case.
    refused = {name for name, lowering in LOWERINGS.items() if isinstance(lowering, Refused)}
    found = frozenset().union(*(intrinsics_of(c.kernel) for c in selected))
    assert found == WORDS - refused
    barriers = {c.name for c in CASES if c.name.partition(".")[0] in BARRIER_TOPICS}
    assert barriers <= {c.name for c in selected}
    assert {c.name.partition(".")[0] for c in CASES if c.name in barriers} == set(BARRIER_TOPICS)


def test_the_planted_kernels_hold_their_faults() -> None:
    """Seen in the code for the GPU, so that an optimization that removes a fault is noticed."""
    x = np.zeros(64, np.float32)
    store = planted.store_past_the_end.ptx(x, arch="sm_90")
    assert "st.global" in store
    assert "setp" not in store  # no guard
    race = planted.read_without_barrier.ptx(x, x, arch="sm_90")
    assert re.search(r"st\.shared[\s\S]*ld\.shared", race)
    assert "bar.sync" not in race
    with pytest.warns(BarrierDivergenceWarning):
        divergent = planted.two_barriers_at_once.ptx(x, x, arch="sm_90")
    assert divergent.count("bar.sync") == 2
    assert "ld.global" in planted.read_unwritten.ptx(x, x, arch="sm_90")
