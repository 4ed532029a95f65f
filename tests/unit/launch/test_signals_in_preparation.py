"""Signal handlers that run while the native launcher is made for the first time."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.kernels import launches
from kerneldsl.launch.native import machine

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of this system differ")


@pytest.fixture
def made_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that sets a handler, which runs while the launcher is made."""
    before, makes = signal.getsignal(signal.SIGUSR1), machine._make

    def set_handler(handler: Callable[..., None]) -> None:
        def make() -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            makes()

        monkeypatch.setattr(launches, "_is_native", False)
        monkeypatch.setattr(machine, "_is_installed", False)
        monkeypatch.setattr(machine, "_refusal", None)
        monkeypatch.setattr(machine, "_make", make)
        signal.signal(signal.SIGUSR1, handler)

    yield set_handler
    signal.signal(signal.SIGUSR1, before)


def _launch_until_native(x: np.ndarray) -> None:
    @kd.kernel  # one that no other test has launched
    def add(x):
        x[kd.grid(1)] += 1

    launch = add[1, x.size]
    for _ in range(launches._LAUNCHES_BEFORE_NATIVE + 1):
        launch(x)


def test_a_timeout_is_no_reason_to_launch_through_python(made_with) -> None:
    def stop(*unused: object) -> None:
        raise TimeoutError("too late")

    made_with(stop)
    with kd.use("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        with pytest.raises(TimeoutError, match="too late"):
            _launch_until_native(np.zeros(8))
    assert not machine.is_refused()


def test_a_handler_may_launch_meanwhile(made_with) -> None:
    heard: list[bool] = []
    nested = np.zeros(8)

    def launch(*unused: object) -> None:
        heard.append(True)
        _launch_until_native(nested)

    made_with(launch)
    x = np.zeros(8)
    with kd.use("cpu"), warnings.catch_warnings():
        warnings.simplefilter("error", kd.KernelWarning)
        _launch_until_native(x)
    assert heard == [True]
    assert (x == nested).all()
