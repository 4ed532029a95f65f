"""Locks in processes that fork: open in the child, and waited for by the fork."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.programs import run_program

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")

_PRELUDE = """
import os, sys, threading, time
from types import ModuleType
from kerneldsl.utilities.locks import ForkSafeLock, no_fork

def forked(work):
    '''The status of a child that does the work; 9 if it hangs.'''
    child = os.fork()
    if child == 0:
        threading.Timer(10, lambda: os._exit(9)).start()
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def in_thread(work):
    has_begun = threading.Event()
    def body():
        work(has_begun)
    thread = threading.Thread(target=body)
    thread.start()
    has_begun.wait()
    return thread
"""


def _said(tmp_path: Path, program: str) -> list[str]:
    done = run_program(tmp_path, _PRELUDE + program)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_lock_is_open_in_the_child(tmp_path: Path) -> None:
    assert _said(
        tmp_path,
        """
lock, end = ForkSafeLock(), threading.Event()
def hold(has_begun):
    with lock:
        has_begun.set()
        end.wait()
thread = in_thread(hold)
print(forked(lock.__enter__))
end.set()
""",
    ) == ["0"]


def test_fork_waits_for_what_cannot_be_left_half_done(tmp_path: Path) -> None:
    assert _said(
        tmp_path,
        """
steps = []
def hold(has_begun):
    with no_fork:
        has_begun.set()
        time.sleep(0.3)
        steps.append("done")
in_thread(hold)
print(forked(lambda: (no_fork.__enter__(), steps.remove("done"))), steps)
with no_fork:  # the thread that is in the block may fork
    print(forked(no_fork.__enter__))
""",
    ) == ["0 ['done']", "0"]


def test_a_message_may_be_written_while_fork_waits(tmp_path: Path) -> None:
    assert _said(
        tmp_path,
        """
def hold(has_begun):
    with no_fork:
        import logging
        has_begun.set()
        time.sleep(0.3)
        logging.getLogger("one that nobody has asked for").debug("fork has logging's lock")
in_thread(hold)
print(forked(no_fork.__enter__))
""",
    ) == ["0"]


def test_a_fork_while_the_first_block_is_entered(tmp_path: Path) -> None:
    """What a first block imports, a child would wait for for ever."""
    assert _said(
        tmp_path,
        """
class Slow:
    def find_spec(self, name, path, target=None):
        begun.set()
        time.sleep(0.5)

begun = threading.Event()
sys.meta_path.insert(0, Slow())
def enter():
    with no_fork:
        begun.set()
thread = threading.Thread(target=enter)
thread.start()
begun.wait()
print(forked(no_fork.__enter__))
thread.join()
""",
    ) == ["0"]


def test_a_child_finds_the_native_launcher_made(tmp_path: Path) -> None:
    """Its first import takes long, and a child would wait for it for ever."""
    assert _said(
        tmp_path,
        """
import importlib, numpy as np, kerneldsl as kd
from kerneldsl.kernels import kernel, launches

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "kerneldsl.launch.native.prepare" and not begun.is_set():
            begun.set()
            time.sleep(0.5)

sys.meta_path.insert(0, Slow())
begun = threading.Event()
thread = threading.Thread(target=launches._install)
thread.start()
begun.wait()
print(forked(launches._install))
thread.join()
""",
    ) == ["0"]
