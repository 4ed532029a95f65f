"""Native launches in processes of their own: at their end, after a fork, and turned off."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.extent import full_beyond
from tests.support.launched import begin_anew


@pytest.fixture(autouse=True)
def native():
    begin_anew()


def run_child(which, **environment):
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.native_child", which],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "which",
    full_beyond(["exit_while_launching", "launch_at_the_very_end"], ["exit_while_launching"]),
)
def test_the_end_of_the_interpreter(which):
    assert "reached the end" in run_child(which)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_prepares_anew():
    assert "parent and child are well" in run_child("fork")


_OFF = pytest.param({"KERNELDSL_LAUNCHER": "off"}, "not installed\n", id="off")


@pytest.mark.full
def test_an_unknown_interpreter_is_warned_of_once():
    out = run_child("unknown_layout")
    assert out.count("KernelWarning") == 1
    assert "size of an object's head" in out
    assert "not installed" in out


@pytest.mark.parametrize(
    ("environment", "said"),
    full_beyond([_OFF, pytest.param({}, "installed\n", id="by default")], [_OFF]),
)
def test_the_environment_turns_it_off(environment, said):
    assert run_child("say_whether_installed", **environment) == said
