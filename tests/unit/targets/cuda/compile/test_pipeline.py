"""The table of optimizing passes of CUDA code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kerneldsl.contract import Report
from kerneldsl.errors import SourceLocation
from targets.cuda.compile import pipeline
from targets.cuda.compile.pipeline import PASSES, Pass, Pipeline, Stage


def test_each_pass_has_a_name_and_a_sentence_of_its_own() -> None:
    names = [each.name for each in PASSES]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", name) for name in names)
    assert all(re.fullmatch(r"[A-Z][^.]+\.", each.purpose) for each in PASSES)


def test_the_page_lists_them() -> None:
    page = Path(__file__).parents[5] / "docs" / "cuda-target.md"
    rows = re.findall(r"^\| `(.+?)` \| (.+?) \| (.+?)(?: \(\[.*)?\.? \|$", page.read_text(), re.M)
    assert rows == [(each.name, each.stage.value, each.purpose.rstrip(".")) for each in PASSES]


def test_passes_are_listed_in_the_order_of_their_stages() -> None:
    stages = list(Stage)
    places = [stages.index(each.stage) for each in PASSES]
    assert places == sorted(places)


def _adding(name: str) -> Pass:
    def rewrite(text: str, end: str, report: Report) -> str:
        report("letter", "added", where=[SourceLocation("file.py", len(text))])
        return text + name + end

    return Pass(name, "Adds its name.", Stage.PTX, rewrite)


def _refuse(text: str, report: Report) -> str:
    report("glass", "kept", 2, is_missed=True)
    report("letter", "changed", 0)
    return text


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> None:
    other = Pass("other", "Is of another stage.", Stage.LLVM, _refuse)
    monkeypatch.setattr(pipeline, "PASSES", [other, *map(_adding, "ab")])


@pytest.mark.usefixtures("passes")
def test_a_stage_runs_its_own_passes_in_their_order() -> None:
    assert Pipeline().run(Stage.PTX, "-", ";") == "-a;b;"
    assert Pipeline(["a"]).run(Stage.PTX, "-", ";") == "-b;"


@pytest.mark.usefixtures("passes")
def test_remarks_are_added_up_in_the_order_of_passes() -> None:
    run = Pipeline(["b"])
    for text in ("-", "--"):
        run.run(Stage.PTX, text, ";")
    run.run(Stage.LLVM, "")
    assert [str(each) for each in run.remarks()] == [
        "other: 2 glasses kept",
        "a: 2 letters added (lines 1, 2)",
        "b: disabled",
    ]
    assert [each.is_missed for each in run.remarks()] == [True, False, True]
