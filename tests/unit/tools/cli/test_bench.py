"""``kerneldsl bench compare``: what it says, and how it exits."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerneldsl.tools.cli import app
from tests.unit.tools.comparison.test_compare import sampled

pytestmark = pytest.mark.usefixtures("plain_environment")


@pytest.fixture
def files(tmp_path: Path) -> Callable[[float], tuple[str, str]]:
    def write(scale: float) -> tuple[str, str]:
        old, new = tmp_path / "old.json", tmp_path / "new.json.gz"
        old.write_text(json.dumps(sampled(1.0, 1)))
        new.write_bytes(gzip.compress(json.dumps(sampled(scale, 2)).encode()))
        return str(old), str(new)

    return write


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app.run(["bench", "compare", *arguments])
    return int(ended.value.code or 0)


def test_the_command_says_what_is_worse_and_exits_with_1(
    files: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*files(1.3)) == 1
    said = capsys.readouterr().out
    assert "samples: changed" in said
    assert "ranks of the samples" in said
    assert "samples: same" not in said
    assert "2 figures: 1 worse, 1 same" in said


def test_nothing_worse_is_exit_0(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*files(1.0), "--all") == 0
    assert "samples: same" in capsys.readouterr().out


def test_json(files: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(*files(1.3), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["worse"] == ["samples: changed"]
    assert {each["verdict"] for each in found["changes"]} == {"worse", "same"}


def test_files_that_cannot_be_read_are_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text("{")
    assert call(str(bad), str(bad)) == 2
    assert "is not JSON" in capsys.readouterr().err
    assert call(str(tmp_path / "missing.json"), str(bad)) == 2


def test_what_is_left_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = sampled(1.0, 1)
    results["samples"] |= {f"bad {i}": [float("nan")] * 5 for i in range(5)}
    file = tmp_path / "run.json"
    file.write_text(json.dumps(results))
    assert call(str(file), str(file)) == 0
    said = capsys.readouterr().out
    assert "2 figures: 2 same" in said
    assert "5 figures left out" in said
    assert "samples: bad 0: nan in the old file" in said
    assert "bad 4" not in said
    assert call(str(file), str(file), "--all") == 0
    said = capsys.readouterr().out
    assert "samples: bad 4: nan" in said
    assert "+nan" not in said
