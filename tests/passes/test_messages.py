"""What a script prints for each of many mistakes, held against what a person has read."""

from __future__ import annotations

import re
import statistics
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kerneldsl as kd
from tests.support.extent import full_beyond

sys.path.insert(0, str(Path(__file__).parent))
from mistakes import HEADER, MISTAKES

#: Underlines below the line of a frame, which differ between versions of Python.
_UNDERLINE = re.compile(r"(line \d+, in [^\n]*\n[^\n]*\n) +[~^]+\n")


class Coloured:
    """What Numba marks the parts of its messages with where colorama is installed."""

    def __getattr__(self, part: str) -> Callable[[str], str]:
        return "\x1b[1m\x1b[31m{}\x1b[0m".format


@pytest.fixture(scope="module", params=full_beyond(["coloured", "plain"], ["coloured"]))
def printed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """What ``python mistake.py`` prints for each, without the folder."""
    folder = tmp_path_factory.mktemp("mistakes")
    with pytest.MonkeyPatch.context() as patch, kd.use("cpu"):
        if request.param == "coloured":
            patch.setattr("numba.core.errors._termcolor_inst", Coloured())
        yield {name: _output(folder / f"{name}.py", text) for name, text in MISTAKES.items()}


def _output(path: Path, text: str) -> str:
    path.write_text(HEADER + text + "\n", encoding="utf-8")
    code = compile(path.read_text(encoding="utf-8"), path, "exec")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(code, {"__name__": "__main__"})
    except (kd.KernelError, TypeError) as error:
        error.__traceback__ = error.__traceback__.tb_next  # this function's frame
        shown = "".join(traceback.format_exception(error))
        return shown.replace(f"{path.parent}/", "")
    pytest.fail(f"{path.name} ends without an error")


def test_messages(printed: dict[str, str], check_golden: Callable[[str, str], None]) -> None:
    shown = []
    for name, text in printed.items():
        same = _UNDERLINE.sub(r"\1", text).replace(". Did you mean 'block'?", "")  # of Python 3.13
        shown += ["=" * 20 + " " + name, MISTAKES[name].strip(), "-" * 20, same]
    check_golden("messages", "\n".join(shown))


def test_messages_are_short(printed: dict[str, str]) -> None:
    counts = {name: len(text.splitlines()) for name, text in printed.items()}
    assert len(counts) >= 50
    assert statistics.median(counts.values()) <= 10, counts
    assert max(counts.values()) <= 20, counts


def test_messages_show_no_library(printed: dict[str, str]) -> None:
    for text in printed.values():
        assert "site-packages" not in text
        assert str(Path(kd.__file__).parent) not in text
