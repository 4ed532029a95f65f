"""Plans are compiled in processes of their own before they are measured, and progress is shown."""

from __future__ import annotations

import io
import os
import signal
import time
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch import artifact
from kerneldsl.tuning import compile_ahead
from kerneldsl.tuning.candidates import find_candidates
from kerneldsl.tuning.compile_ahead import CompileAhead, compile_in_children
from kerneldsl.tuning.session import ProgressBar
from targets.cpu.runtime.processors import runnable_threads

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")


def make_fill(*tiles: int) -> Any:
    @kd.kernel(space=kd.Space(block=[32], tile=list(tiles), covers=lambda c: c.block * c.tile))
    def fill(out, *, block, tile):
        for k in range(tile):
            i = (kd.blockIdx.x * tile + k) * block + kd.threadIdx.x
            if i < out.size:
                out[i] = i

    return fill


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Code that this process compiles itself."""
    compiled: list[int] = []

    def compile_or_load(compiler: Any, code: Any) -> Any:
        made, how = artifact_compile(compiler, code)
        if how == "compiled":
            compiled.append(os.getpid())
        return made, how

    artifact_compile = artifact.compile_or_load
    monkeypatch.setattr(artifact, "compile_or_load", compile_or_load)
    return compiled


def test_all_members_but_the_first_are_compiled_by_children(here: list[int]):
    out = np.full(1000, np.nan)
    with kd.use("cpu"):
        report = make_fill(1, 2, 3, 4).forall(1000).tune(out, budget="full", processes=2)
    assert len(here) == 1
    assert len({each.plan.parameters for each in report.tried}) == 4
    assert all(each.measured.median_ns is not None for each in report.tried)
    assert np.isnan(out).all()


@pytest.mark.parametrize("off", ["one process", "no cache"])
def test_without_children_this_process_compiles(
    here: list[int], off: str, monkeypatch: pytest.MonkeyPatch
):
    processes = 1 if off == "one process" else 2
    if off == "no cache":
        monkeypatch.setenv("KERNELDSL_CACHE", "0")
    with kd.use("cpu"):
        make_fill(1, 2).forall(100).tune(np.zeros(100), budget="full", processes=processes)
    assert len(here) == 2


def test_what_is_recorded_is_not_compiled(here: list[int], monkeypatch: pytest.MonkeyPatch):
    x = np.zeros(100)
    with kd.use("cpu"):
        make_fill(1, 2).forall(100).tune(x, budget="full")
        started: list[Any] = []
        monkeypatch.setattr(compile_ahead, "compile_in_children", lambda *given: started.append(1))
        make_fill(1, 2).forall(100).tune(x, budget="full", processes=2)
        assert not started
        make_fill(1, 2, 3, 4, 5).forall(100).tune(x, budget="full", processes=2)
        assert started


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Numbers of the processes that are forked."""
    found: list[int] = []
    fork = compile_ahead._fork

    def counted(*given: Any) -> int:
        found.append(fork(*given))
        return found[-1]

    monkeypatch.setattr(compile_ahead, "_fork", counted)
    return found


def check_gone(children: list[int]) -> None:
    assert children
    for child in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(child, os.WNOHANG)


def codes_of(kernel: Any) -> tuple[Any, list[Any]]:
    request = kernel.forall(100)._request((np.zeros(100),))
    ahead = CompileAhead(request, find_candidates(request), 2)
    return request.device.compiler, list({ahead._code(n) for n in range(len(ahead._candidates))})


def test_as_many_processes_as_can_run_at_once():
    with kd.use("cpu"):
        request = make_fill(1, 2).forall(100)._request((np.zeros(100),))
        ahead = CompileAhead(request, find_candidates(request))
    assert ahead._processes == runnable_threads().threads


def test_an_error_or_a_child_that_hangs_is_left_to_this_process(
    monkeypatch: pytest.MonkeyPatch, children: list[int]
):
    def fail(compiler: Any, code: Any) -> Any:
        if code.unit.constants["tile"].value == 1:
            raise ValueError("this cannot be compiled")
        time.sleep(60)

    with kd.use("cpu"):
        compiler, codes = codes_of(make_fill(1, 2))
    monkeypatch.setattr(compile_ahead, "compile_or_load", fail)
    monkeypatch.setattr(compile_ahead, "_MOST_SECONDS", 0.3)
    started = time.perf_counter()
    compile_in_children(compiler, codes, 2)
    assert time.perf_counter() - started < 30
    check_gone(children)


def test_an_interrupt_ends_the_children(monkeypatch: pytest.MonkeyPatch, children: list[int]):
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    with kd.use("cpu"):
        compiler, codes = codes_of(make_fill(1, 2))
    monkeypatch.setattr(compile_ahead, "compile_or_load", lambda *given: signal.pause())
    monkeypatch.setattr(compile_ahead.time, "sleep", interrupt)
    with pytest.raises(KeyboardInterrupt):
        compile_in_children(compiler, codes, 2)
    check_gone(children)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_is_shown_on_a_terminal_after_a_moment(monkeypatch: pytest.MonkeyPatch):
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    bar = ProgressBar(10, None, True)
    bar.step(1, 2000.0)
    assert not shown.getvalue()
    bar._started -= 1.0
    bar.step(2, 2000.0)
    bar.close()
    assert "2 of 10 plans, best 2.0 µs" in shown.getvalue()
    for hidden in (ProgressBar(10, None, False), ProgressBar(10, lambda line: None, True)):
        before = shown.getvalue()
        hidden._started -= 1.0
        hidden.step(3, 1000.0)
        hidden.close()
        assert shown.getvalue() == before


def test_processes_are_counted():
    with pytest.raises(kd.ArgumentValueError, match="processes is 0"):
        make_fill(1).forall(100).tune(np.zeros(100), processes=0)
