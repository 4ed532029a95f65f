"""Children that may die, for tests that kill or weaken them."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable

import pytest

__all__ = ["NOBODY", "needs_fork", "needs_root", "run_in_child", "start_child"]

#: A user and group that owns nothing.
NOBODY = 65534

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
needs_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can give files to another user",
)


def start_child(work: Callable[[], object]) -> int:
    """Fork a child that does some work; its status is 1 if that raises."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 -- the child must not go on as a second pytest
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return child


def run_in_child(work: Callable[[], object]) -> int:
    """Run some work in a child; return its exit status, or the negative number of its signal."""
    _, status = os.waitpid(start_child(work), 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
    return code
