"""SASS of a kernel, by nvdisasm where it is, and by a stand-in for it everywhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kerneldsl as kd
from kerneldsl.cards.kernels import code_forms, joined_lines
from targets.cuda.compile import ptxas as sass
from targets.cuda.compile import ptxas as tools

SIGNATURE = "float32[::1], float32[::1]"


@kd.kernel(lineinfo=True)
def scaled(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = 3 * x[i]


LINE = scaled.function.__code__.co_firstlineno + 4


def artifact():
    return scaled.artifact(SIGNATURE, arch="sm_90", target="cuda")


def test_sass_names_the_lines_of_the_source() -> None:
    try:
        sass.find_nvdisasm()
    except kd.ToolMissingError as missing:
        pytest.skip(missing.what)
    text = artifact().text("sass")
    assert "STG.E" in text
    joins = joined_lines("sass", text, __file__)
    assert {joins.get(n) for n, row in enumerate(text.split("\n"), 1) if "STG.E" in row} == {LINE}


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A program in nvdisasm's place, that prints its arguments and what is in ``output``."""
    made = tmp_path / "nvdisasm"
    made.write_text(f'#!/bin/sh\necho "$@"\ncat {tmp_path}/output\n')
    made.chmod(0o755)
    others = tools.tool_places
    monkeypatch.setattr(
        tools, "tool_places", lambda name: iter((made,)) if name == made.name else others(name)
    )
    sass.find_nvdisasm.cache_clear()
    yield made
    sass.find_nvdisasm.cache_clear()


def test_a_card_has_what_the_disassembler_writes(tool: Path) -> None:
    (tool.parent / "output").write_text(
        f'//## File "{__file__}", line {LINE}\n  /*0010*/ STG.E <R1> ;\n'
        '//## File "/other.py", line 3\n  /*0020*/ EXIT ;\n'
    )
    forms = {
        f"{each.title} {each.code}": each.lines for each in code_forms("cuda", artifact(), __file__)
    }
    (shown,) = (each for each in forms if "SASS (cuda sm_90)" in each)
    assert forms[shown] == {LINE}
    assert "--print-code --print-line-info" in shown
    assert "STG.E &lt;R1&gt;" in shown


def test_code_that_cannot_be_read_is_said(tool: Path) -> None:
    with pytest.raises(kd.CompileError, match=r"cannot read the machine code: .*output"):
        sass.disassemble(b"no code")
    titles = "".join(each.title for each in code_forms("cuda", artifact(), __file__))
    assert "PTX (cuda sm_90)" in titles
    assert "SASS" not in titles


def test_a_tool_that_is_missing_is_named(tool: Path) -> None:
    tool.unlink()
    with pytest.raises(kd.ToolMissingError, match="nvdisasm was not found"):
        artifact().text("sass")


def test_what_takes_compiling_is_not_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    made = artifact()
    assert made.forms_at_hand() == ("ptx", "sass", "llvm")
    monkeypatch.setattr(made, "_llvm", lambda: pytest.fail("it was compiled"))
    monkeypatch.setattr(made, "ptx", made.ptx + " " * 100_000)
    assert made.forms_at_hand() == ("ptx",)
    assert len(list(code_forms("cuda", made, __file__))) == 1
