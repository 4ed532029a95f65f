"""Programs that tests run in a process of their own: ``python -m tests.support.native_child NAME``.

Each launches kernels by native code where it is there, under circumstances that a test process
should not be in.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings

import numpy as np

import kerneldsl as kd
from kerneldsl.launch.native import layout, machine


@kd.kernel
def axpy(a, x, y, out):
    """The kernel of every program here."""
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


def _launch(n: int, count: int) -> None:
    # Whole numbers, so that fusing multiply and add changes nothing.
    x, y, out = (np.random.default_rng().integers(0, 1000, n).astype(float) for _ in range(3))
    for i in range(count):
        out[...] = np.nan
        axpy.forall(n)(float(i), x, y, out)
        np.testing.assert_array_equal(out, i * x + y)


def exit_while_launching() -> None:
    """Daemon threads launch while the interpreter ends."""
    for n in (16, 100_000):
        thread = threading.Thread(target=_launch, args=(n, 10**9), daemon=True)
        thread.start()
    _launch(64, 2000)
    print("reached the end")


class _LaunchesAtTheEnd:
    def __init__(self) -> None:
        self.args = (2.0, *(np.ones(16) for _ in range(3)))
        self.launch = axpy.forall(16)
        self.bound = self.launch.bind(*self.args)

    def __del__(self) -> None:
        self.launch(*self.args)
        self.bound()


_last: _LaunchesAtTheEnd | None = None


def launch_at_the_very_end() -> None:
    """A finalizer launches when modules are taken apart."""
    global _last
    _launch(16, 100)
    _last = _LaunchesAtTheEnd()
    print("reached the end")


def fork() -> None:
    """Parent and child launch, serially and in parallel."""
    for n in (16, 100_000):
        _launch(n, 50)
    sys.stdout.flush()
    child = os.fork()
    for n in (16, 100_000):
        _launch(n, 50)
    if child == 0:
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert status == 0, status
    print("parent and child are well")


def unknown_layout() -> None:
    """The layout's check finds something else than it knows."""
    layout.HEAD += 8
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _launch(16, 300)
        axpy[1, 16].bind(1.0, *(np.ones(16) for _ in range(3)))()
    for each in caught:
        print(each.category.__name__, each.message)
    say_whether_installed()


def say_whether_installed() -> None:
    """Whether native code launches after some launches."""
    _launch(16, 100)
    print("installed" if machine.is_installed() else "not installed")


if __name__ == "__main__":
    kd.use("cpu")
    globals()[sys.argv[1]]()
