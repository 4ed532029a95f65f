"""Launches that would never end, which handlers of signals stop.

Run as ``python -m tests.unit.targets.cpu.runtime.interrupted_launches KERNEL WAY SIZE``, with a
name of :data:`KERNELS` and one of :data:`WAYS`; prints the milliseconds from each signal to the
exception of its handler. After each one the same kernel is launched again, and its results are
compared.
"""

from __future__ import annotations

import asyncio
import ctypes
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import kerneldsl as kd
from targets.cpu.runtime.native_tables import RecordPlace, SignalWord, table
from tests.support.processors import allow_any_number_of_threads

__all__ = ["KERNELS", "WAYS", "main"]

_senders: list[threading.Thread] = []
#: Times that each launch is stopped.
_REPEATS = 4


class Alarm(Exception):
    """What a handler of the program's own raises."""


# Each adds 1 to the elements of `x`, and never ends where `n` is not 0.


@kd.kernel
def spins(x, n):
    i = kd.grid(1)
    if i < x.size:
        while n != 0:
            pass
        x[i] += 1


@kd.kernel
def counts_for_ever(x, n):
    i = kd.grid(1)
    if i < x.size:
        j = 0
        while j * n >= 0 and n != 0:
            j = (j + 1) & 1023
        x[i] += 1 + j


@kd.func
def halved(x, n):
    while n != 0:
        x = x * 0.5 + 1.0
        if x < 0:
            break
    return x


@kd.kernel
def calls_a_function(x, n):
    i = kd.grid(1)
    if i < x.size:
        x[i] = halved(x[i], n) + 1


@kd.kernel
def lanes_leave_one_by_one(x, n):
    i = kd.grid(1)
    if i < x.size:
        a = float(i)
        while a * n > -1.0 and n != 0:
            a = a * 0.5 + (i & 3)
        x[i] += 1


@kd.kernel
def waits_at_barriers(x, n):
    shared = kd.shared.array(64, kd.float64)
    t = kd.threadIdx.x
    shared[t] = x[kd.grid(1)]
    kd.syncthreads()
    while n != 0:
        shared[t] = shared[(t + 1) % 64] + 1.0
        kd.syncthreads()
    x[kd.grid(1)] = shared[t] + 1


@kd.kernel
def exchanges(x, n):
    i = kd.grid(1)
    a = x[i]
    while n != 0:
        a = kd.shfl_xor_sync(0xFFFFFFFF, a, 1) + 1.0
    x[i] = a + 1


@kd.kernel
def calls_mathematics(x, n):
    i = kd.grid(1)
    if i < x.size:
        a = 1.5
        while n != 0:
            a = 1.0 + math.fabs(math.lgamma(a) + math.sin(a))
        x[i] += 1 if n == 0 else a


@kd.kernel
def takes_a_long_sum(x, n):
    i = kd.grid(1)
    if i < x.size:
        a = 0.0
        for _ in range(n * 1_000_000_000_000):
            a += math.sqrt(a + 1.0)
        x[i] += 1 + a


@kd.kernel
def locks_itself_out(x, n):
    i = kd.grid(1)
    if i < x.size:
        if n != 0:
            while kd.atomic.cas(x, i, -1.0, -2.0) != -1.0:
                pass
        x[i] += 1


#: Kernels by name, and whether they are launched by blocks.
KERNELS: dict[str, tuple[Any, bool]] = {
    kernel.__name__: (kernel, kernel.__name__ in ("waits_at_barriers", "exchanges"))
    for kernel in (
        *(spins, counts_for_ever, calls_a_function, lanes_leave_one_by_one, waits_at_barriers),
        *(exchanges, calls_mathematics, takes_a_long_sum, locks_itself_out),
    )
}


def _stop(number: int, frame: object) -> None:
    raise Alarm


def _exit(number: int, frame: object) -> None:
    sys.exit(3)


def plain(launch: Callable[[], None]) -> None:
    """Python's own handler."""
    launch()


def asyncio_run(launch: Callable[[], None]) -> None:
    """asyncio's, which raises nothing and cancels a task."""

    async def task() -> None:
        launch()

    asyncio.run(task())


def alarm(launch: Callable[[], None]) -> None:
    """A handler of SIGALRM that raises."""
    before = signal.signal(signal.SIGALRM, _stop)
    try:
        launch()
    finally:
        signal.signal(signal.SIGALRM, before)


def terminate(launch: Callable[[], None]) -> None:
    """A handler of SIGTERM that ends the program."""
    signal.signal(signal.SIGTERM, _exit)
    launch()


def own_interrupt(launch: Callable[[], None]) -> None:
    """A handler of SIGINT that raises an exception of the program's own."""
    before = signal.signal(signal.SIGINT, _stop)
    try:
        launch()
    finally:
        signal.signal(signal.SIGINT, before)


def other_thread(launch: Callable[[], None]) -> None:
    """The launch is another thread's, and the main thread waits for that."""
    thread = threading.Thread(target=launch, daemon=True)
    thread.start()
    while True:
        thread.join(10.0)


#: Ways to launch by name: the signal that is sent, and what it raises.
WAYS: dict[str, tuple[Callable[[Callable[[], None]], None], int, type[BaseException]]] = {
    "plain": (plain, signal.SIGINT, KeyboardInterrupt),
    "asyncio": (asyncio_run, signal.SIGINT, KeyboardInterrupt),
    "alarm": (alarm, signal.SIGALRM, Alarm),
    "terminate": (terminate, signal.SIGTERM, SystemExit),
    "own_interrupt": (own_interrupt, signal.SIGINT, Alarm),
    "other_thread": (other_thread, signal.SIGINT, KeyboardInterrupt),
}


def send(number: int, seconds: float) -> list[float]:
    """Send a signal so long after a launch has begun; the time of it is put into the list.

    A handler that cancels a task would not stop a launch that begins afterwards.
    """
    sent: list[float] = []

    def later() -> None:
        while not _is_launching():
            time.sleep(0.01)
        time.sleep(seconds)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=later, daemon=True)
    # Where it is forgotten Python runs code that ignores exceptions, those of handlers too.
    _senders.append(thread)
    thread.start()
    return sent


def _is_launching() -> bool:
    record = table[SignalWord.RECORDS]
    while record and not _word(record + RecordPlace.FRAME):
        record = _word(record + RecordPlace.NEXT)
    return record != 0


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


def main() -> int:
    """Stop the launch of a kernel again and again."""
    kernel, is_block = KERNELS[sys.argv[1]]
    way, number, expected = WAYS[sys.argv[2]]
    size = int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kd.use("cpu")
    launcher = kernel[size // 64, 64] if is_block else kernel.forall(size)
    for repeat in range(_REPEATS):
        x = np.arange(size, dtype=np.float64)
        launcher(x, 0)
        if not (x == np.arange(size) + 1).all():
            return 1
        sent = send(number, 0.3 + 0.013 * repeat)
        try:
            way(lambda: launcher(np.zeros(size), 1))
        except expected:
            print(f"{1e3 * (time.perf_counter() - sent[0]):.1f}", flush=True)
        else:
            return 2
        if way is other_thread:  # its launch goes on
            os._exit(0)
    return 0


if __name__ == "__main__":
    allow_any_number_of_threads()
    sys.exit(main())
