"""What a first launch takes is imported while a driver starts, and not before."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import kerneldsl as kd
from kerneldsl.launch import dispatch
from kerneldsl.utilities import import_ahead as module
from kerneldsl.utilities.import_ahead import FIRST_LAUNCH, OWN_KERNEL, import_ahead
from kerneldsl.utilities.locks import no_fork

ROOT = Path(__file__).parents[3]
_KERNEL = """
import sys, time, threading
import numpy as np
import kerneldsl as kd

@kd.kernel
def add(x, y):
    i = kd.grid(1)
    if i < y.size:
        y[i] += x[i]

def imported():
    return {m for m in sys.modules if m.startswith(("kerneldsl.", "targets", "numba", "llvmlite"))}
"""


@pytest.fixture(autouse=True)
def _nothing_was_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_done", set())


def python(text: str, folder: Path, head: str = _KERNEL) -> str:
    """What a program says, in a process of its own."""
    program = folder / "program.py"
    program.write_text(head + textwrap.dedent(text))
    env = {k: v for k, v in os.environ.items() if not k.startswith("KERNELDSL_")}
    done = subprocess.run(
        [sys.executable, str(program)],
        env={**env, "PYTHONPATH": str(ROOT), "KERNELDSL_CACHE_DIR": str(folder / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_decorating_imports_little(tmp_path: Path) -> None:
    said = python("print(*sorted(imported()))", tmp_path)
    parts = {name.split(".")[1] for name in said.split()}
    assert not parts & {
        "abi",
        "analysis",
        "cache",
        "frontend",
        "language",
        "planner",
        "registry",
    }
    assert not set(said.split()) & {*FIRST_LAUNCH, *OWN_KERNEL}


def test_a_long_wait_is_used(tmp_path: Path) -> None:
    said = python(
        """
        from kerneldsl.utilities.import_ahead import FIRST_LAUNCH, import_ahead

        with import_ahead("targets.cuda.device.executable"):
            until = time.monotonic() + 60
            while "targets.cuda.device.executable" not in sys.modules and time.monotonic() < until:
                time.sleep(0.01)
        print(set(FIRST_LAUNCH) <= imported(), {"numba", "llvmlite"} & imported())
        """,
        tmp_path,
    )
    assert said == "True set()"


def test_a_wait_that_ends_leaves_the_rest_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on, last = threading.Event(), threading.Event(), threading.Event()
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if len(steps) == 2:
            begun.set()
            assert go_on.wait(60)

    def find_identity() -> None:
        steps.append("identity")
        last.set()

    join = threading.Thread.join

    def join_at_last(thread: threading.Thread, timeout: float | None = None) -> None:
        go_on.set()
        join(thread, timeout)

    monkeypatch.setattr(module, "import_module", step)
    monkeypatch.setattr(module, "_find_identity", find_identity)
    monkeypatch.setattr(module, "_PATIENCE_S", 60.0)
    monkeypatch.setattr(threading.Thread, "join", join_at_last)
    threads = threading.active_count()
    with import_ahead("one.more"):
        # The wait is over while the second step is under way, and that step is waited for.
        assert begun.wait(60)
    assert steps == list(FIRST_LAUNCH[:2])
    assert threading.active_count() == threads
    with import_ahead("one.more"):
        assert last.wait(60)
    assert steps[2:] == [*FIRST_LAUNCH, "one.more", *OWN_KERNEL, "identity"]
    with import_ahead("one.more"):
        assert threading.active_count() == threads
        time.sleep(0.05)
    assert steps[2:] == [*FIRST_LAUNCH, "one.more", *OWN_KERNEL, "identity"]


def test_without_numpy_nothing_is_read(tmp_path: Path) -> None:
    """Another thread may be about to import it, whose parts import one another."""
    program = """
        from kerneldsl.utilities.import_ahead import import_ahead

        before = set(sys.modules)
        with import_ahead():
            until = time.monotonic() + patience
            while set(sys.modules) == before and time.monotonic() < until:
                time.sleep(0.01)
        print(set(sys.modules) - before, threading.active_count())
        """
    head = "import sys, threading, time\npatience = 0.1\n"
    assert python(program, tmp_path, head) == "set() 1"
    head = "import sys, threading, time, numpy\npatience = 60\n"
    assert python(program, tmp_path, head) != "set() 1"


def test_what_keys_depend_on_is_found_ahead(tmp_path: Path) -> None:
    said = python(
        """
        from kerneldsl.utilities.import_ahead import _done, import_ahead

        with import_ahead():
            until = time.monotonic() + 60
            while not _done and time.monotonic() < until:
                time.sleep(0.01)
        from kerneldsl.cache import toolchain
        print(toolchain.own_identity.cache_info().currsize)
        print(toolchain.package_identity.cache_info().currsize)
        """,
        tmp_path,
    )
    assert said.split() == ["1", "2"]


def test_nothing_is_left_for_a_first_launch_to_import(tmp_path: Path) -> None:
    # A target brings modules of its own; the core has been imported.
    program = """
        import importlib
        from kerneldsl.utilities.import_ahead import FIRST_LAUNCH, OWN_KERNEL

        with kd.use("null"):
            for name in (*FIRST_LAUNCH, *OWN_KERNEL):
                importlib.import_module(name)
            before = imported()
            x = kd.zeros(100, np.float32)
            add.forall(100)(x, x)
            kd.synchronize()
        print(*sorted(m for m in imported() - before if m.startswith("kerneldsl")))
        """
    python(program, tmp_path)
    assert python(program, tmp_path) == ""


def test_a_wait_that_is_over_at_once_imports_nothing(tmp_path: Path) -> None:
    said = python(
        """
        from kerneldsl.utilities import import_ahead

        # However slow this machine is now.
        import_ahead._QUICK_S = 60.0
        before = imported()
        for _ in range(20):
            with import_ahead.import_ahead():
                pass
        print(imported() - before, threading.active_count())
        """,
        tmp_path,
    )
    assert said == "set() 1"


@pytest.mark.filterwarnings("error")
def test_what_cannot_be_imported_is_left_to_who_needs_it() -> None:
    with import_ahead("kerneldsl.no_such_module"):
        time.sleep(0.05)


def test_nobody_forks_while_a_module_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[bool] = []

    looked = threading.Event()

    def look(name: str) -> None:
        held.append(no_fork.is_held)
        looked.set()

    monkeypatch.setattr(module, "import_module", look)
    with import_ahead():
        assert looked.wait(60)
    assert held
    assert all(held)


def test_a_finalizer_that_starts_a_driver_starts_no_thread(tmp_path: Path) -> None:
    said = python(
        """
        from kerneldsl.utilities.import_ahead import import_ahead

        class Last:
            def __init__(self):
                self.itself = self

            def __del__(self, import_ahead=import_ahead, say=print, ending=sys.is_finalizing):
                with import_ahead():
                    say("works", ending(), flush=True)

        import gc

        gc.disable()  # a collection that happens to come due would find it before the end
        Last()
        """,
        tmp_path,
    )
    assert said == "works True"


def test_an_error_of_the_driver_passes() -> None:
    with pytest.raises(ZeroDivisionError), import_ahead():
        raise ZeroDivisionError


def test_without_threads_it_is_only_waited(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    passed = []
    with import_ahead():
        passed.append(True)
    assert passed


def test_an_import_that_waits_for_the_waiting_is_left_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def import_for_ever(name: str) -> Any:
        begun.set()
        go_on.wait(60)
        ended.set()

    monkeypatch.setattr(module, "import_module", import_for_ever)
    monkeypatch.setattr(module, "_PATIENCE_S", 0.05)
    with import_ahead():
        assert begun.wait(60)
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(60)


def test_threads_that_ask_first_get_one_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(4)

    class Slow(dispatch.Dispatcher):
        def __init__(self, *args: Any) -> None:
            together.wait(60)  # all of them are being made at once
            super().__init__(*args)

    monkeypatch.setattr(dispatch, "Dispatcher", Slow)

    @kd.kernel
    def fill(x):
        x[kd.grid(1)] = 1

    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(fill.forall(4)._dispatcher)) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(map(id, found))) == 1
