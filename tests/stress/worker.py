"""One process of the stress test: threads that compile and launch, then a fork that launches.

Run as ``python -m tests.stress.worker KERNELS LAUNCHES THREADS [hidden module…]``; ends with status
0 when every result was right, and names the threading layer that was used.
"""

from __future__ import annotations

import importlib.abc
import os
import random
import sys
import threading
import time
import traceback
from typing import Any

__all__ = ["main"]

#: Names of Numba's compiled threading layers.
LAYER_MODULES = {
    "tbb": "numba.np.ufunc.tbbpool",
    "omp": "numba.np.ufunc.omppool",
    "workqueue": "numba.np.ufunc.workqueue",
}
#: Seconds that a forked child may take.
_CHILD_SECONDS = 120

_ELEMENT = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i] * {factor} + i
"""
_BLOCK = """
import numpy as np
import kerneldsl as kd

@kd.kernel
def kernel(x, out):
    s = kd.shared.array(64, np.int64)
    t = kd.threadIdx.x
    i = kd.grid(1)
    s[t] = x[i] * {factor} if i < x.size else 0
    kd.syncthreads()
    if i < out.size:
        out[i] = s[t ^ 1] - s[t ^ 1] + s[t] + i
"""


class _Hider(importlib.abc.MetaPathFinder):
    """Makes modules impossible to import, as if the library behind them were missing."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        if fullname in self._names:
            raise ImportError(f"{fullname} is hidden by the test")


def _make_kernels(count: int) -> list[tuple[int, Any]]:
    from tests.support.source import exec_source

    made = []
    for number in range(count):
        template = _BLOCK if number % 3 == 0 else _ELEMENT
        text = template.format(factor=number + 2)
        made.append((number + 2, exec_source(text, "stress")["kernel"]))
    return made


def _launch(kernel: Any, factor: int, size: int) -> None:
    import numpy as np

    x = np.arange(size) % 1013
    out = np.full(size, -1)
    kernel[-(-size // 64), 64](x, out)
    expected = x * factor + np.arange(size)
    if not np.array_equal(out, expected):
        wrong = int(np.argmax(out != expected))
        raise AssertionError(
            f"factor {factor}, size {size}: out[{wrong}] is {out[wrong]}, not {expected[wrong]}"
        )


def _run_threads(kernels: list[tuple[int, Any]], launches: int, threads: int) -> None:
    """Launch from many threads that start together, on kernels that none has compiled yet."""
    gate = threading.Barrier(threads)
    failures: list[str] = []

    def work(number: int) -> None:
        order = random.Random(number)
        try:
            gate.wait()
            for step in range(launches // threads):
                factor, kernel = (
                    kernels[(step + number) % len(kernels)]
                    if step < len(kernels)
                    else order.choice(kernels)
                )
                _launch(kernel, factor, order.choice((1, 64, 1000, 70_000)))
        except BaseException:  # noqa: BLE001 - reported by the main thread
            failures.append(traceback.format_exc())

    running = [threading.Thread(target=work, args=(n,)) for n in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failures:
        raise AssertionError(failures[0])


def _run_fork_while_launching(kernels: list[tuple[int, Any]]) -> None:
    """Fork while other threads launch; the child launches what is compiled already."""
    stop = threading.Event()
    failures: list[str] = []

    def work() -> None:
        try:
            while not stop.is_set():
                for factor, kernel in kernels:
                    _launch(kernel, factor, 70_000)
        except BaseException:  # noqa: BLE001 - reported by the main thread
            failures.append(traceback.format_exc())

    running = [threading.Thread(target=work) for _ in range(3)]
    for thread in running:
        thread.start()
    try:
        for _ in range(3):
            _run_fork(kernels, new=0)
    finally:
        stop.set()
        for thread in running:
            thread.join()
    if failures:
        raise AssertionError(failures[0])


def _run_fork(kernels: list[tuple[int, Any]], new: int) -> None:
    """Launch known and `new` kernels in a forked child, and in the parent after it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            for factor, kernel in kernels + _make_kernels(new):
                _launch(kernel, factor, 70_000)
            status = 0
        except BaseException:  # noqa: BLE001 - the parent sees the status
            traceback.print_exc()
        finally:
            os._exit(status)
    deadline = time.monotonic() + _CHILD_SECONDS
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        if time.monotonic() > deadline:
            os.kill(child, 9)
            os.waitpid(child, 0)
            raise AssertionError(f"the forked child hung for {_CHILD_SECONDS} s")
        time.sleep(0.01)
    code = os.waitstatus_to_exitcode(status)
    if code:
        raise AssertionError(f"the forked child ended with {code}")
    for factor, kernel in kernels:
        _launch(kernel, factor, 70_000)


def main(arguments: list[str]) -> None:
    """Run the stress of one process."""
    kernel_count, launches, threads = map(int, arguments[:3])
    hidden = tuple(arguments[3:])
    if hidden:
        sys.meta_path.insert(0, _Hider(hidden))
    import kerneldsl as kd
    from targets.cpu.runtime.threads import threading_layer

    kd.use("cpu")
    kernels = _make_kernels(kernel_count)
    _run_threads(kernels, launches, threads)
    _run_fork(kernels, new=2)
    _run_fork_while_launching(kernels[:3])
    print("right", threading_layer().name)


if __name__ == "__main__":
    main(sys.argv[1:])
