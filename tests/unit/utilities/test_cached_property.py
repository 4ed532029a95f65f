"""Attributes that are computed once: by whom, and in a child that is forked meanwhile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from kerneldsl.utilities.cached_property import cached_property


class _Counting:
    def __init__(self) -> None:
        self.calls = 0

    @cached_property
    def value(self) -> int:
        """The number of calls."""
        self.calls += 1
        return self.calls


def test_it_is_computed_once_for_each_instance() -> None:
    one, other = _Counting(), _Counting()
    assert (one.value, one.value, other.value) == (1, 1, 1)
    assert one.calls == 1
    assert vars(one)["value"] == 1


def test_the_class_has_the_property_itself() -> None:
    assert isinstance(_Counting.value, cached_property)
    assert _Counting.value.__doc__ == "The number of calls."


_FORKED = """
import os, signal, threading
from kerneldsl.utilities.cached_property import cached_property

begun, may_end = threading.Event(), threading.Event()

class Slow:
    @cached_property
    def value(self):
        begun.set()
        may_end.wait()
        return 5

class Quick(Slow):
    pass

thread = threading.Thread(target=lambda: Slow().value)
thread.start()
begun.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(30)
    may_end.set()
    os._exit(Quick().value)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
may_end.set()
thread.join()
print(code)
"""


def test_a_child_that_is_forked_while_another_thread_computes_one() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORKED],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("5\n", "", 0)
