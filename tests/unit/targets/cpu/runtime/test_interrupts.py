"""Launches that signals interrupt: endless ones, under every handler, and what runs beside them."""

from __future__ import annotations

import asyncio
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import kerneldsl as kd
from stdlib_kernels.sort import sort
from targets.cpu.regions.compile import is_short
from targets.cpu.regions.read import read_kernel
from targets.cpu.runtime import signals
from targets.cpu.runtime.linking import check_object
from targets.cpu.runtime.native_tables import INSTALL_HANDLERS
from targets.cpu.runtime.signal_handlers import CAN_LEAVE_CODE, compile_handlers
from tests.support.extent import full_beyond
from tests.unit.targets.cpu.runtime.interrupted_launches import KERNELS, WAYS, Alarm, send

pytestmark = pytest.mark.skipif(not CAN_LEAVE_CODE, reason="kernels of this processor are not left")

#: What handles an interrupt other than as Python does by itself.
HANDLERS = [way for way in WAYS if way != "plain"]
#: Of launches that never end. What it is where nothing else runs, is measured alone.
_MOST_MS = 5000.0


def stopped(kernel: str, way: str, size: int, **environment: str) -> list[float]:
    """Return the milliseconds from each signal to the exception, in a process of its own."""
    module = "tests.unit.targets.cpu.runtime.interrupted_launches"
    done = subprocess.run(
        [sys.executable, "-m", module, kernel, way, str(size)],
        cwd=Path(__file__).parents[5],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [float(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("size", full_beyond([64, 1 << 18], [1 << 18]))
@pytest.mark.parametrize("kernel", full_beyond(list(KERNELS), ["exchanges"]))
def test_launches_that_never_end_are_stopped(kernel: str, size: int) -> None:
    late = stopped(kernel, "plain", size)
    assert len(late) == 4
    assert max(late) < _MOST_MS, late


@pytest.mark.parametrize("size", full_beyond([64, 1 << 18], [1 << 18]))
@pytest.mark.parametrize("way", full_beyond(HANDLERS, ["asyncio", "terminate"]))
def test_they_are_stopped_under_every_handler(way: str, size: int) -> None:
    late = stopped("counts_for_ever", way, size)
    assert len(late) == (1 if way == "other_thread" else 4)
    assert max(late) < _MOST_MS, late


@pytest.mark.full
@pytest.mark.parametrize("way", full_beyond(["plain", "asyncio", "alarm"], ["asyncio"]))
@pytest.mark.parametrize("threads", full_beyond(["1", "2", "5"], ["1"]))
def test_they_are_stopped_with_any_number_of_threads(way: str, threads: str) -> None:
    late = stopped("waits_at_barriers", way, 1 << 18, NUMBA_NUM_THREADS=threads)
    assert max(late) < _MOST_MS, late


@pytest.mark.full
@pytest.mark.parametrize("layer", full_beyond(["omp", "tbb", "workqueue", "serial"], ["omp"]))
def test_they_are_stopped_under_other_threading_layers(layer: str) -> None:
    late = stopped("counts_for_ever", "plain", 1 << 18, KERNELDSL_THREADING_LAYER=layer)
    assert max(late) < _MOST_MS, late


@pytest.mark.measures
@pytest.mark.parametrize(
    "way", full_beyond([way for way in WAYS if way != "terminate"], ["plain", "other_thread"])
)
def test_they_are_stopped_within_a_tenth_of_a_second(way: str) -> None:
    late = stopped("takes_a_long_sum", way, 1 << 18)
    # All of them, but for one in which another program had the processor.
    assert sorted(late)[-2:][0] < 100.0, late


# ----------------------------------------------------------------------------- handlers that return


@kd.kernel
def sums(out, n):
    i = kd.grid(1)
    if i < out.size:
        a = 0
        for j in range(n):
            a += (i ^ j) & 3
        out[i] = a


@kd.kernel
def adds_one(x):
    i = kd.grid(1)
    if i < x.size:
        for _ in range(3):
            x[i] += 1


def send_and_launch(number: int, out: np.ndarray) -> None:
    """Launch what takes for ever."""
    send(number, 0.1)
    sums.forall(out.size)(out, 10**10)


def test_a_launch_goes_on_where_handlers_return() -> None:
    """They run while it runs, and may launch kernels themselves, of the same code too."""
    heard: list[float] = []
    size, n = 1 << 14, 1_000_000
    nested = np.zeros(1 << 16)
    again = np.zeros(100, np.int64)

    def handle(number: int, frame: object) -> None:
        heard.append(time.perf_counter())
        adds_one.forall(nested.size)(nested)
        sums.forall(again.size)(again, 10)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with kd.use("cpu"):
            out = np.full(size, -1, np.int64)
            sums.forall(size)(out, 1)
            adds_one.forall(16)(np.zeros(16))
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            sums.forall(size)(out, n)
            ended = time.perf_counter()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
    assert sum(each < ended for each in heard) >= 3
    assert (nested == 3 * len(heard)).all()
    j = np.arange(n)
    for i in (0, 1, 2, 3, size - 1):
        assert out[i] == ((i ^ j) & 3).sum()
    expected = [((i ^ np.arange(10)) & 3).sum() for i in range(100)]
    assert (again == expected).all()


def test_what_comes_after_an_interrupted_launch_is_right() -> None:
    """Launches of others too, and those of the library."""
    with kd.use("cpu"):
        out, other = np.zeros(1 << 16, np.int64), np.zeros(1 << 16, np.int64)
        sums.forall(out.size)(out, 1)
        thread = threading.Thread(target=lambda: sums.forall(other.size)(other, 5_000))
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            send_and_launch(signal.SIGINT, out)
        thread.join()
        j = np.arange(5_000)
        for i in (0, 1, 2, 3, 17):
            assert other[i] == ((i ^ j) & 3).sum()
        values = np.random.default_rng().random(100_001)
        np.testing.assert_array_equal(np.asarray(sort(values)), np.sort(values))


def test_an_exception_has_the_handlers_lines_in_its_traceback() -> None:
    def handle(number: int, frame: object) -> None:
        raise Alarm("at the end")

    before = signal.signal(signal.SIGALRM, handle)
    try:
        with kd.use("cpu"):
            out = np.zeros(1 << 16, np.int64)
            sums.forall(out.size)(out, 1)
            with pytest.raises(Alarm, match="at the end") as caught:
                send_and_launch(signal.SIGALRM, out)
    finally:
        signal.signal(signal.SIGALRM, before)
    names = [entry.name for entry in caught.traceback]
    assert names[-1] == "handle"
    assert names[0].startswith("test_an_exception")


def test_a_cancelled_task_may_clean_up_by_launches() -> None:
    """asyncio's handler cancels the task that launches, once."""
    cleaned = np.zeros(1 << 16)

    async def task() -> None:
        out = np.zeros(1 << 16, np.int64)
        try:
            send(signal.SIGINT, 0.5)
            sums.forall(out.size)(out, 10**10)
        except asyncio.CancelledError:
            adds_one.forall(cleaned.size)(cleaned)
            raise

    with kd.use("cpu"):
        sums.forall(16)(np.zeros(16, np.int64), 1)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(task())
    assert (cleaned == 3).all()


def test_a_forked_child_is_interrupted() -> None:
    """Its threads are its own, that which watches over launches too."""
    with kd.use("cpu"):
        out = np.zeros(1 << 16, np.int64)
        sums.forall(out.size)(out, 1)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                send(signal.SIGINT, 0.1)
                sums.forall(out.size)(out, 10**10)
            except KeyboardInterrupt:
                status = 7
            finally:
                os._exit(status)
    deadline = time.monotonic() + 30.0
    while (found := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(found[1]) == 7


def test_threads_that_end_leave_their_records_to_others() -> None:
    def launch() -> None:
        sums.forall(64)(np.zeros(64, np.int64), 2)

    def count() -> int:
        number, at = 0, signals.table[signals.SignalWord.RECORDS]
        while at:
            number += 1
            at = signals.ctypes.c_int64.from_address(at).value
        return number

    with kd.use("cpu"):
        launch()
        before = count()
        for _ in range(20):
            thread = threading.Thread(target=launch)
            thread.start()
            thread.join()
        assert count() <= before + 2


# ------------------------------------------------------------------------------- which kernels


@kd.kernel
def axpy(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = max(a * x[i], abs(x[i])) + float(i)


@kd.kernel
def takes_a_mean(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x.mean()


@kd.kernel
def takes_a_largest(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = max(x)


@kd.kernel
def takes_a_sum(a, x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = sum(x)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [(axpy, True), (takes_a_mean, False), (takes_a_largest, False), (takes_a_sum, False)],
)
def test_kernels_that_are_short(kernel: Any, expected: bool) -> None:
    signature = "float32, float32[::1], float32[::1]"
    _, specialization = kernel.specialization(signature, forall=1, target="cpu")
    assert is_short(read_kernel(specialization)[1]) == expected


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_the_handlers_are_compiled_for(monkeypatch: pytest.MonkeyPatch, machine: str) -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{machine}-unknown-linux-gnu")
    monkeypatch.setattr(platform, "machine", lambda: machine)
    monkeypatch.setattr(llvm.Target, "from_default_triple", lambda: target)
    check_object(compile_handlers(), INSTALL_HANDLERS)
