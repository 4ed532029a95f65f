"""Kernels of programs that stand in no file: ``python -c``, ``python -``, the prompt."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kerneldsl.frontend.source import texts_of_program
from tests.support.extent import full_beyond

PROGRAM = """\
import numpy as np, kerneldsl as kd
@kd.kernel
def ramp(out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = i

out = np.zeros(3)
ramp.forall(3)(out)
print(out)
"""
WRONG = PROGRAM.replace("out[i] = i", "out[i] = nowhere")


def python(*arguments: str, **how: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, **how)


_OPTIONS = [("-c",), ("-W", "ignore", "-Xutf8", "-Bc")]


@pytest.mark.parametrize("options", full_beyond(_OPTIONS, _OPTIONS[1:]), ids=" ".join)
def test_a_program_on_the_command_line(options: tuple[str, ...]):
    result = python(*options, PROGRAM, "an argument")
    assert result.stdout == "[0. 1. 2.]\n", result.stderr


def test_a_message_shows_the_line_of_the_command_line():
    result = python("-c", WRONG)
    # Python 3.13 keeps the text under its own name.
    shown = "<string>" if sys.version_info[:2] == (3, 13) else "<python -c>"
    assert f"  at {shown}:6, in ramp\n      out[i] = nowhere\n" in result.stderr


def test_executed_text_is_not_taken_for_the_command_line():
    result = python("-c", f"exec({PROGRAM!r})")
    assert "linecache.cache[filename]" in result.stderr


def test_a_program_of_standard_input(tmp_path: Path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    with path.open() as file:
        result = python("-", stdin=file)
    assert result.stdout == "[0. 1. 2.]\n", result.stderr


def test_a_program_of_a_pipe_hears_what_to_do():
    result = python("-", input=PROGRAM)
    assert "`python program.py`, or `python - < program.py`" in result.stderr


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="the prompt keeps the text")
def test_a_program_at_the_prompt_hears_what_to_do():
    result = python("-i", "-q", input=PROGRAM.replace("\n\n", "\n").replace("= i\n", "= i\n\n"))
    assert "import it, or work in IPython or with Python 3.13 or later" in result.stderr


@pytest.mark.skipif(sys.version_info < (3, 13), reason="the prompt keeps no text")
def test_a_kernel_defined_and_redefined_at_the_prompt():
    lines = """\
import numpy as np, kerneldsl as kd
out = np.zeros(3)
@kd.kernel
def ramp(out):
    out[kd.grid(1)] = 1

ramp.forall(3)(out); print("first", out)
@kd.kernel
def ramp(out):
    i = kd.grid(1)
    out[i] = 2 * i

ramp.forall(3)(out); print("second", out)
exit()
"""
    printed = at_the_prompt(lines)
    assert "first [1. 1. 1.]" in printed
    assert "second [0. 2. 4.]" in printed


def at_the_prompt(lines: str) -> str:
    """Type lines at Python's prompt, in a terminal; returns what it showed."""
    pty = pytest.importorskip("pty", reason="this system has no terminals of this sort")
    child, terminal = pty.fork()
    if child == 0:  # the dumb terminal has the plain prompt, whose text can be compared
        os.environ["TERM"] = "dumb"
        os.execv(sys.executable, [sys.executable, "-q"])
    shown = b""
    try:
        for line in lines.splitlines():
            shown += _until_prompt(terminal)
            os.write(terminal, f"{line}\n".encode())
        while True:
            shown += os.read(terminal, 4096)
    except OSError:  # it has ended
        pass
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
    return shown.decode(errors="replace")


def _until_prompt(terminal: int) -> bytes:
    shown = b""
    while not shown.endswith((b">>> ", b"... ")):
        ready, _, _ = select.select([terminal], [], [], 120)
        assert ready, f"no prompt came after {shown!r}"
        shown += os.read(terminal, 4096)
    return shown


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["python", "-c", "a"], "a"),
        (["python", "-ca", "b"], "a"),
        (["python", "-IXdev", "-W", "ignore", "-Bc", "a"], "a"),
        (["python", "--check-hash-based-pycs", "always", "-c", "a"], "a"),
        (["python", "program.py", "-c", "a"], None),
        (["python", "-m", "package", "-c", "a"], None),
        (["python", "-", "-c", "a"], None),
        (["python"], None),
    ],
)
def test_command_lines(monkeypatch: pytest.MonkeyPatch, arguments: list[str], text: str | None):
    monkeypatch.setattr(sys, "orig_argv", arguments)
    assert next(texts_of_program("<string>"), None) == text
