"""The linter of prose finds words and long sentences, and its baseline only shrinks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.prose import __main__ as command
from tests.support.prose.rules import LONGEST, findings, in_paragraph
from tests.support.prose.texts import Paragraph, paragraphs


def _messages(text: str, kind: str = "page") -> list[str]:
    return [finding.message for finding in in_paragraph(Paragraph(1, text, kind))]


@pytest.mark.parametrize(
    ("text", "word", "better"),
    [
        ("The value stands in a register.", "stands", "is in"),
        ("Whoever asks for it gets it.", "asks", "requests"),
        ("It is told the size.", "told", "reports"),
        ("What follows behind it.", "behind", "after"),
        ("Arrays of\nwhich none is read.", "of which", "two sentences"),
        ("A kernel whose arguments are bound.", "whose", "with"),
        ("Zero where\nthere is none.", "where there", "if"),
        ("Where it cannot be had, 0.", "cannot be had", "available"),
        ("A stream of its own.", "of its own", "own"),
    ],
)
def test_a_word_to_avoid_is_found(text: str, word: str, better: str) -> None:
    [message] = [m for m in _messages(text) if m.startswith(f'"{word}"')]
    assert better in message.partition(": better ")[2]


@pytest.mark.parametrize(
    "text",
    [
        "Return the value. If there is none, return 0.",
        "The mask and the task are basked in.",
        "The standard names; what you want to understand.",
        "`sm` stands for streaming multiprocessor.",
        "Where is it?",
    ],
)
def test_plain_prose_has_no_findings(text: str) -> None:
    assert not _messages(text)


@pytest.mark.parametrize("kind", sorted(LONGEST))
def test_a_sentence_has_a_limit(kind: str) -> None:
    limit = LONGEST[kind]
    fits = " ".join(["Word"] * limit) + "."
    assert not _messages(f"{fits} {fits}", kind)
    assert not _messages(f"{fits} code begins another.", kind)
    [message] = _messages(f"Short one. Another {fits}", kind)
    assert f"a sentence of {limit + 1} words" in message


@pytest.mark.parametrize(
    "beginning",
    ["Of a barrier", "By which it lasts", "The same for y", "From which part on", "What"],
)
def test_a_label_begins_with_its_subject(beginning: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        f'"""Module."""\n\n#: {beginning}.\nx = 1\n\n\nclass A(NamedTuple):\n'
        f'    y: float = 1.0\n    """{beginning}."""\n    z: float = 1.0\n    """Seconds."""\n'
        f"    # {beginning}.\n\n#: By default 1.\nw = 1\n",
        encoding="utf-8",
    )
    found = [f.line for f in findings(module) if "describes nothing by itself" in f.message]
    assert found == [3, 9]


def test_a_finding_has_the_line_of_its_word() -> None:
    found = list(in_paragraph(Paragraph(7, "One line.\nThen another.\nIt stands there.", "page")))
    assert [finding.line for finding in found] == [9]


def test_pages_are_read_without_code(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# It stands\n\n```python\nasks = 1\n```\n`asks` and [told](asks.md)\n\n"
        "| a | behind |\n|---|---|\n| `asks\\|x` | b |\n\n- one item\n- whose item\n",
        encoding="utf-8",
    )
    assert [(f.line, f.message.split('"')[1]) for f in findings(page)] == [
        (1, "stands"),
        (6, "told"),
        (8, "behind"),
        (13, "whose"),
    ]


def test_docstrings_and_comments_are_read_without_code(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""It stands here.\n\n>>> told = 1\n\nAs in::\n\n    asks(1)\n\nBehind that.\n\n'
        'References\n----------\nA. Nobody, "Whose Title".\n"""\n'
        '#: Whose value.\nx = "asks"\n\n\nclass A:\n    if x:\n\n        def f(self):\n'
        '            """Ask nobody."""\n            y = "told"  # asks\n',
        encoding="utf-8",
    )
    assert [(f.line, f.message.split('"')[1].lower()) for f in findings(module)] == [
        (1, "stands"),
        (9, "behind"),
        (15, "whose"),
        (23, "ask"),
        (23, "nobody"),
    ]


def test_cells_of_notebooks_have_their_lines(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "code", "source": ["asks = 1"]},
        {"cell_type": "markdown", "source": ["A title\n", "\n", "It stands.\n"]},
    ]
    notebook = tmp_path / "one.ipynb"
    notebook.write_text(json.dumps({"cells": cells}, indent=1), encoding="utf-8")
    [finding] = findings(notebook)
    assert '"It stands.\\n"' in notebook.read_text(encoding="utf-8").splitlines()[finding.line - 1]


def test_a_baseline_is_only_lowered() -> None:
    baseline = {"fewer.md": 3, "gone.md": 2, "more.md": 1, "same.md": 4}
    found = {"fewer.md": 1, "more.md": 2, "new.md": 1, "same.md": 4}
    assert command.compared(found, baseline) == (
        {"more.md": 2, "new.md": 1},
        {"fewer.md": 1, "gone.md": 0},
    )
    lowered = command.lowered(found, baseline)
    assert lowered == {"fewer.md": 1, "more.md": 1, "same.md": 4}
    assert command.read(command.written(lowered)) == lowered


def test_the_command_fails_until_the_baseline_is_lowered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("It stands.\n", encoding="utf-8")
    monkeypatch.setattr(command, "_ROOT", tmp_path)
    monkeypatch.setattr(command, "BASELINE", tmp_path / "baseline.txt")
    command.BASELINE.write_text("", encoding="utf-8")
    assert command.main(["--update"]) == 1  # never raised
    assert 'page.md:1: "stands": better is' in capsys.readouterr().out
    command.BASELINE.write_text("2 page.md\n", encoding="utf-8")
    assert command.main([]) == 1
    assert "from 2 to 1" in capsys.readouterr().out
    assert command.main(["--update"]) == 0
    assert command.BASELINE.read_text(encoding="utf-8") == "1 page.md\n"
    assert command.main([]) == 0
    assert command.main(["page.md"]) == 0


def test_paragraphs_are_in_the_order_of_the_file() -> None:
    lines = [paragraph.line for paragraph in paragraphs(Path(command.__file__))]
    assert lines == sorted(lines)
    assert lines[0] == 1
