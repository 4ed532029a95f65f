"""Options of CUDA C++: what they hold, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerneldsl.contract.cuda_options import CudaOptions
from kerneldsl.errors import ArgumentError


def test_equal_options_are_equal_however_they_were_written(tmp_path: Path) -> None:
    one = CudaOptions(include=str(tmp_path), defines={"WIDTH": 4, "FAST": True, "PLAIN": None})
    other = CudaOptions(include=[tmp_path], defines=[("WIDTH", "4"), ("FAST", "1"), ("PLAIN", "1")])
    assert one == other
    assert hash(one) == hash(other)
    assert one.folders == (str(tmp_path),)
    assert one.macros == (("WIDTH", "4"), ("FAST", "1"), ("PLAIN", "1"))


def test_a_relative_folder_is_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "headers").mkdir()
    monkeypatch.chdir(tmp_path)
    assert CudaOptions(include=["headers"]).folders == (str(tmp_path / "headers"),)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"opt_level": 4}, "opt_level is 4. It must be an int, 0 to 3"),
        ({"opt_level": True}, "opt_level is True"),
        ({"max_registers": 0}, "max_registers is 0. It must be an int, 1 to 255"),
        ({"debug": 1}, "debug is 1. It must be a bool"),
        ({"std": "c++98"}, "std is 'c++98'. NVRTC knows c++11, c++14, c++17, c++20"),
        ({"include": ["/no/such/folder"]}, "There is no such folder"),
        ({"include": 3}, "include is an int"),
        ({"include": [3]}, "include holds an int"),
        ({"defines": 3}, "defines is an int"),
        ({"defines": {"2X": 1}}, "defines names '2X'"),
        ({"defines": {"X": "1\n#error"}}, "A macro's value is one line"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        CudaOptions(**wrong)
    assert told in str(caught.value)
