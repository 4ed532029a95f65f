"""Streams and events on a GPU: order, overlap, and one default stream for all threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd


@kd.kernel
def axpy(a, x, y, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = a * x[i] + y[i]


@kd.kernel
def increment(x):
    i = kd.grid(1)
    x[i] += 1


@kd.kernel
def spins(rounds, out):
    i = kd.grid(1)
    value = out[i]
    for _ in range(rounds):
        value = value * 1.0000001 + 1e-9
    out[i] = value


def _busy(stream: kd.Stream, milliseconds: float = 20.0) -> kd.DeviceArray:
    """Put about so much work into a stream, and return the array that it works on."""
    array = kd.zeros(32, stream=stream)
    spins.forall(32, stream=stream)(1000, array)
    taken_ms = []
    for _ in range(4):  # the clock of an idle device rises only now
        start, end = kd.Event(), kd.Event()
        stream.record(start)
        spins.forall(32, stream=stream)(100_000, array)
        stream.record(end)
        taken_ms.append(start.elapsed_ms(end))
    rounds = int(100_000 * milliseconds / max(min(taken_ms), 1e-3))
    spins.forall(32, stream=stream)(rounds, array)
    return array


# --------------------------------------------------------------------------- streams


@pytest.mark.measures
def test_a_launch_waits_in_its_stream_and_others_go_on() -> None:
    slow, fast = kd.Stream(blocking=False), kd.Stream(blocking=False)
    increment.forall(32)(kd.zeros(32))  # loading code waits for the device
    kd.synchronize()
    array = _busy(slow, 200)
    assert not slow.query()
    other = kd.zeros(32, stream=fast)
    increment.forall(32, stream=fast)(other)
    fast.synchronize()
    assert fast.query()
    assert not slow.query()
    slow.synchronize()
    assert slow.query()
    assert np.isfinite(array.copy_to_host(stream=slow)).all()
    assert (other.copy_to_host(stream=fast) == 1).all()


def test_waiting_for_a_stream_orders_work() -> None:
    first, second = kd.Stream(blocking=False), kd.Stream(blocking=False)
    slow = _busy(first, 50)
    array = kd.zeros(1001, stream=first)
    increment.forall(1001, stream=first)(array)
    out = kd.full(1001, np.nan, stream=second)
    second.wait(first)
    axpy.forall(1001, stream=second)(2.0, array, array, out)
    assert (out.copy_to_host(stream=second) == 3).all()
    assert first.query(), "the second stream was done before what it waits for"
    del slow


@pytest.mark.measures
def test_events_order_streams_and_take_the_time() -> None:
    first, second = kd.Stream(blocking=False), kd.Stream(blocking=False)
    before = first.record()
    slow = _busy(first, 50)
    after = first.record()
    assert not after.query()
    second.wait(after)
    late = second.record()
    assert not late.query()
    late.synchronize()
    assert after.query()
    assert 40 < before.elapsed_ms(after) < 5000
    assert before.elapsed_ms(late) >= before.elapsed_ms(after)
    assert after.elapsed_ms(before) < 0
    del slow


def test_priorities_are_clamped_to_the_device() -> None:
    for priority in (-100, 0, 100):
        with kd.Stream(priority=priority) as stream:
            array = kd.zeros(33)
            increment.forall(33)(array)
            assert (array.copy_to_host() == 1).all()
        assert stream.priority == priority


def test_the_current_stream_is_the_threads_own() -> None:
    found: dict[str, Any] = {}
    stream = kd.Stream()

    def look() -> None:
        found["other"] = kd.current_stream("cuda:0")
        with kd.Stream("cuda:0") as own:
            found["own"] = kd.current_stream() is own

    with stream:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert kd.current_stream() is stream
    assert found["other"] is kd.default_stream("cuda:0")
    assert found["own"]


def test_memory_is_given_out_again_only_after_the_streams_that_used_it() -> None:
    home, other = kd.Stream(blocking=False), kd.Stream(blocking=False)
    wrong = 0
    for _ in range(20):
        source = kd.full(1 << 20, 1.0, stream=home)
        out = kd.full(1 << 20, 0.0, stream=other)
        other.wait(home)
        _busy(other, 2)
        axpy.forall(1 << 20, stream=other)(1.0, source, source, out)
        del source  # its memory must not be given out before `other` has read it
        poison = kd.full(1 << 20, np.nan, stream=home)
        wrong += int((out.copy_to_host(stream=other) != 2).sum())
        del poison
    assert wrong == 0


def test_a_closed_stream_and_streams_of_nobody() -> None:
    stream = kd.Stream()
    array = kd.zeros(8)
    stream.close()
    stream.close()
    for use in (
        lambda: increment.forall(8, stream=stream)(array),
        lambda: array.copy_to_host(stream=stream),
        stream.synchronize,
        stream.record,
        lambda: stream.__enter__(),
    ):
        with pytest.raises(kd.ClosedResourceError):
            use()
    with pytest.raises(kd.KernelError):
        kd.Stream.from_foreign(object())


@pytest.mark.alone
def test_many_streams_leave_nothing_behind() -> None:
    from targets.cuda.driver.driver import get_driver

    def free_bytes() -> int:
        kd.synchronize()
        driver = get_driver()
        with driver.current(0):
            return int(driver.call(driver.api.cuMemGetInfo, doing="read the free memory")[0])

    def use_many() -> None:
        for _ in range(200):
            with kd.Stream() as stream:
                stream.record().close()
            stream.close()
        gc.collect()

    use_many()
    before = free_bytes()
    use_many()
    use_many()
    assert free_bytes() == before


# --------------------------------------------------------------------------- the default stream


def see_one_default_stream_in_two_threads() -> None:
    """Let a thread copy from the default stream what it put there behind another thread's work."""
    kd.use("cuda:0")
    array = kd.zeros(1001)
    increment.forall(1001)(array)
    slow = _busy(kd.default_stream(), 100)
    before = kd.Event().record()
    assert not before.query()
    found: list[Any] = []

    def other() -> None:
        increment.forall(1001)(array)
        found.extend([array.copy_to_host(), before.query()])

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    result, is_reached = found
    assert (result == 2).all()
    assert is_reached, "the second thread has not waited for the first one's work"
    del slow


@pytest.mark.parametrize("per_thread", ["0", "1"])
def test_the_default_stream_is_one_for_all_threads(per_thread: str) -> None:
    """Also where NVIDIA's bindings take the stream 0 for the thread's own."""
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import {__name__} as t; t.{see_one_default_stream_in_two_threads.__name__}()",
        ],
        env=dict(os.environ, CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM=per_thread),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr


# --------------------------------------------------------------------------- overlap


@pytest.mark.measures
def test_a_copy_and_a_kernel_overlap(capsys: pytest.CaptureFixture[str]) -> None:
    nbytes = 256 << 20
    host = kd.pinned_empty(nbytes, np.uint8)
    host[:] = 1
    device = kd.empty(nbytes, np.uint8)
    copying, computing = kd.Stream(blocking=False), kd.Stream(blocking=False)
    array = kd.zeros(32, stream=computing)
    spins.forall(32, stream=computing)(1000, array)
    device.copy_from_host(host, stream=copying, blocking=False)
    kd.synchronize()

    def timed(*works: Any) -> float:
        """Milliseconds from before the first to after the last piece of work."""
        gate = kd.Stream(blocking=False)
        start = gate.record()
        ends = []
        for stream, work in works:
            stream.wait(start)
            work()
            ends.append(stream.record())
        for _, end in zip(works, ends, strict=True):
            gate.wait(end)
        return start.elapsed_ms(gate.record())

    def copy() -> None:
        device.copy_from_host(host, stream=copying, blocking=False)

    rounds = 100_000
    kernel_ms = timed((computing, lambda: spins.forall(32, stream=computing)(rounds, array)))
    copy_ms = min(timed((copying, copy)) for _ in range(3))
    rounds = int(rounds * copy_ms / kernel_ms)

    def compute() -> None:
        spins.forall(32, stream=computing)(rounds, array)

    kernel_ms = min(timed((computing, compute)) for _ in range(3))
    both_ms = min(timed((computing, compute), (copying, copy)) for _ in range(3))
    with capsys.disabled():
        print(
            f"\ncopy {copy_ms:.2f} ms, kernel {kernel_ms:.2f} ms, one after the other "
            f"{copy_ms + kernel_ms:.2f} ms, overlapping {both_ms:.2f} ms"
        )
    assert both_ms < 0.75 * (copy_ms + kernel_ms)
    assert both_ms >= 0.95 * max(copy_ms, kernel_ms)


# --------------------------------------------------------------------------- what is imported


def test_a_program_that_only_launches_does_not_import_cuda_core() -> None:
    import os
    import subprocess
    import sys

    code = (
        "import sys, numpy as np, kerneldsl as kd\n"
        "from tests.cuda.test_streams import increment\n"
        "for module in [m for m in sys.modules if m.startswith('cuda.core')]: raise SystemExit(m)\n"
        "x = kd.to_device(np.zeros(8)); increment.forall(8)(x); h = np.zeros(8)\n"
        "increment.forall(8)(h); assert (x.copy_to_host() == 1).all() and (h == 1).all()\n"
        "assert not any(m.startswith('cuda.core') for m in sys.modules)\n"
    )
    environment = {**os.environ, "PYTHONPATH": ".", "KERNELDSL_TARGET": "cuda"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
