"""Progress: shown after a moment where somebody looks, one at a time, and taken away."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.launch import artifact
from kerneldsl.tuning.session import ProgressBar
from kerneldsl.utilities import progress
from kerneldsl.utilities.progress import NotebookBar, said_after_a_moment, screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Display:
    """IPython's `display`, and the handle that it returns."""

    def __init__(self) -> None:
        self.shown: list[dict[str, str]] = []

    def __call__(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Display:
        assert raw
        assert display_id
        assert not self.shown, "one output, which is updated"
        self.shown.append(bundle)
        return self

    def update(self, bundle: dict[str, str], *, raw: bool) -> None:
        assert raw
        self.shown.append(bundle)


@pytest.fixture(autouse=True)
def short_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "MOMENT_S", 0.0)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    made = Terminal()
    # Not in `sys` itself, where pytest puts its own before each test.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=made))
    return made


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Display:
    made = Display()
    monkeypatch.setattr(progress, "notebook_bar", lambda: NotebookBar(made))
    monkeypatch.setattr("kerneldsl.tuning.session.notebook_bar", lambda: NotebookBar(made))
    return made


def wait_for(is_there: Any) -> None:
    ends = time.monotonic() + 20
    while not is_there():
        assert time.monotonic() < ends
        time.sleep(0.002)


def test_a_terminal_has_a_line_while_it_takes(terminal: Terminal) -> None:
    with said_after_a_moment(lambda: "working …"):
        wait_for(terminal.getvalue)
    assert terminal.getvalue() == "\rworking …\x1b[K\r\x1b[K"
    assert screen.take(), "it is left to the next"
    screen.leave()


def test_a_long_text_stays_on_one_line(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, text in ((None, 78 * "x" + "…"), (30, 28 * "x" + "…"), (0, 78 * "x" + "…")):
        if columns is not None:
            monkeypatch.setattr(terminal, "fileno", lambda: 2)
            size = os.terminal_size((columns, 24))
            monkeypatch.setattr(os, "get_terminal_size", lambda descriptor, size=size: size)
        terminal.seek(0)
        terminal.truncate()
        with said_after_a_moment(lambda: 500 * "x"):
            wait_for(terminal.getvalue)
        assert terminal.getvalue() == f"\r{text}\x1b[K\r\x1b[K"


@pytest.mark.skipif(os.name != "posix", reason="the system has no pseudoterminals")
def test_a_compilation_leaves_nothing_on_a_real_terminal(tmp_path: Path) -> None:
    import pty
    import termios

    program = tmp_path / "program.py"
    program.write_text(
        """
import kerneldsl as kd
from kerneldsl.utilities import progress
progress.MOMENT_S = 0.0

@kd.kernel
def slowly(x):
    x[kd.grid(1)] = 1.0

slowly.ptx("float32[::1]", arch="sm_90")
"""
    )
    ours, its = pty.openpty()
    termios.tcsetwinsize(its, (24, 40))
    environment = {**os.environ, "KERNELDSL_CACHE": "off"}
    command = [sys.executable, str(program)]
    with subprocess.Popen(command, stderr=its, stdout=its, env=environment) as process:
        os.close(its)
        said = b""
        with suppress(OSError):  # the last one has closed it
            while part := os.read(ours, 4096):
                said += part
    os.close(ours)
    assert process.returncode == 0
    shown, taken_away = said.decode().split("\x1b[K")[-3:-1]
    assert shown.startswith("\rcompiling slowly(")
    assert len(shown.strip()) < 40
    assert taken_away == "\r"
    assert "\n" not in said.decode()


def test_what_is_done_at_once_is_not_said(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "MOMENT_S", 60.0)
    with said_after_a_moment(lambda: "working …"):
        pass
    assert terminal.getvalue() == ""


def test_errors_pass_and_the_line_goes(terminal: Terminal) -> None:
    def fail() -> None:
        with said_after_a_moment(lambda: "working …"):
            wait_for(terminal.getvalue)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_a_text_that_fails_disturbs_nothing(terminal: Terminal) -> None:
    asked = []
    with said_after_a_moment(lambda: asked.append(1) or 1 / 0):
        wait_for(lambda: asked)
    assert "working" not in terminal.getvalue()


def test_two_do_not_write_over_each_other(terminal: Terminal) -> None:
    with said_after_a_moment(lambda: "outer"):
        wait_for(terminal.getvalue)
        with said_after_a_moment(lambda: "inner"):
            time.sleep(0.05)
    assert "inner" not in terminal.getvalue()


def test_without_a_reader_no_thread_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", io.StringIO())
    monkeypatch.setattr("threading.Timer", None)
    with said_after_a_moment(lambda: "working …"):
        pass
    monkeypatch.setattr("sys.stderr", None)
    with said_after_a_moment(lambda: "working …"):
        pass


def test_a_notebook_has_a_bar_in_the_cell(notebook: Display) -> None:
    with said_after_a_moment(lambda: "<b>working"):
        wait_for(lambda: notebook.shown)
    first, last = notebook.shown
    assert first["text/plain"] == "<b>working"
    assert "<progress></progress> &lt;b&gt;working" in first["text/html"]
    assert last == {}


def test_tuning_has_a_bar_in_the_cell(notebook: Display) -> None:
    bar = ProgressBar(10, None, True)
    bar._started -= 1.0
    bar.step(1, 2000.0)
    bar.step(2, 1500.0)
    with said_after_a_moment(lambda: "compiling"):
        time.sleep(0.05)
    bar.close()
    first, second, last = notebook.shown
    assert '<progress value="1" max="10">' in first["text/html"]
    assert second["text/plain"] == "tuning: 2 of 10 plans, best 1.5 µs"
    assert last == {}
    ProgressBar(10, None, False).step(1, 1.0)
    assert len(notebook.shown) == 3


def test_compiling_is_said(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    @kd.kernel
    def slowly(x):
        x[kd.grid(1)] = 1.0

    made = artifact.compile_or_load

    def compile_slowly(*args: Any) -> Any:
        wait_for(terminal.getvalue)
        return made(*args)

    monkeypatch.setattr(artifact, "compile_or_load", compile_slowly)
    slowly.ptx("float32[::1]", arch="sm_90")
    assert "slowly(float32[::1]) for sm_90 …" in terminal.getvalue()
    assert terminal.getvalue().endswith("\r\x1b[K")


def test_only_a_shell_with_a_kernel_is_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("IPython")
    monkeypatch.setattr("IPython.get_ipython", lambda: None)
    assert progress.notebook_bar() is None
    shell = type("Shell", (), {"kernel": None})()
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    assert progress.notebook_bar() is None
    shell.kernel = object()
    assert isinstance(progress.notebook_bar(), NotebookBar)
