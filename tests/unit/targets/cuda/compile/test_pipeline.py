"""The table of optimizing passes of CUDA code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

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


def test_a_stage_runs_its_own_passes_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    passes = [
        Pass("other", "Is of another stage.", Stage.LLVM, lambda text: "other"),
        *(
            Pass(name, "Adds its name.", Stage.PTX, lambda text, end, name=name: text + name + end)
            for name in "ab"
        ),
    ]
    monkeypatch.setattr(pipeline, "PASSES", passes)
    assert Pipeline().run(Stage.PTX, "-", ";") == "-a;b;"
    assert Pipeline(["a"]).run(Stage.PTX, "-", ";") == "-b;"
