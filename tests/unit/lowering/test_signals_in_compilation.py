"""What a handler of a signal raises while a kernel is compiled is raised as it is."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of this system differ")


class Late(Exception):
    """Raised by a handler."""


def stop(*unused: object) -> None:
    raise Late("too late")


class Stopper:
    def method(self, *unused: object) -> None:
        stop()

    def __call__(self, *unused: object) -> None:
        stop()


HANDLERS: list[Any] = [stop, Stopper().method, Stopper(), functools.partial(stop, 1)]


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Send a signal in each compilation while the list has a number."""
    import targets.cpu.regions.compile

    signals: list[int] = []
    read_kernel = targets.cpu.regions.compile.read_kernel

    def read_and_stop(*arguments: Any, **named: Any) -> Any:
        found = read_kernel(*arguments, **named)
        if signals:
            os.kill(os.getpid(), signals.pop())
        return found

    monkeypatch.setattr(targets.cpu.regions.compile, "read_kernel", read_and_stop)
    before = signal.getsignal(signal.SIGUSR1)
    yield signals
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("handler", HANDLERS, ids=["function", "method", "object", "partial"])
def test_the_error_of_a_handler_is_raised(handler: Any, interrupted: list[int]) -> None:
    @kd.kernel
    def add(x):
        i = kd.grid(1)
        last = kd.local.array(2, np.float32)  # compiled once more where that fails
        last[0] = x[i]
        x[i] = last[0] + 1

    signal.signal(signal.SIGUSR1, handler)
    interrupted.append(signal.SIGUSR1)
    x = np.zeros(8)
    with kd.use("cpu"):
        with pytest.raises(Late, match="too late"):
            add[1, 8](x)
        add[1, 8](x)
    assert (x == 1).all()
