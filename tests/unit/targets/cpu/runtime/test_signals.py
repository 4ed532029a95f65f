"""Running kernels and signals: what a fault says, and how a launch is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch.native import machine
from targets.cpu.runtime import signals
from tests.support.extent import full_beyond
from tests.support.native import is_native, require_native, warm_up

pytestmark = pytest.mark.skipif(not signals.IS_SUPPORTED, reason="the system has other signals")


FAR = """
import faulthandler, os, signal, sys
import numpy as np, kerneldsl as kd

@kd.kernel
def far(x, n, out):
    i = kd.grid(1)
    if i < n:
        out[i % out.size] = x[0, i * 100_000_000]

x, out, count = np.zeros((1, 3)), np.zeros(2), {count}
launch = far.forall(count)
for _ in range({launches}):
    launch(x, 1, out)
"""
SAID = (
    "kerneldsl: a memory access failed while kernel far(x: float64 of shape (1, 3), n: int64, "
    "out: float64 of shape (2,)) was running ({path}:6). An index beyond an array does this: run "
    "it with debug=True, or KERNELDSL_DEBUG=1 in the environment, to see where."
)


def run_far(
    tmp_path: Path, rest: str, *, count: int = 100, launches: int = 0, layer: str = ""
) -> tuple[subprocess.CompletedProcess[str], str]:
    path = tmp_path / "far.py"
    path.write_text(FAR.format(count=count, launches=launches) + textwrap.dedent(rest))
    environment = {**os.environ, "KERNELDSL_THREADING_LAYER": layer}
    done = subprocess.run(
        [sys.executable, str(path)],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
        check=False,
    )
    return done, SAID.format(path=path)


@pytest.mark.parametrize("layer", full_beyond(["native", "omp", "workqueue", "serial"], ["native"]))
@pytest.mark.parametrize("launches", [0, 5])
@pytest.mark.parametrize("count", full_beyond([100, 200_000], [200_000]))
def test_a_fault_names_its_kernel_and_ends_the_process_as_before(
    tmp_path: Path, count: int, launches: int, layer: str
):
    done, said = run_far(
        tmp_path, "launch(x, count, out)", count=count, launches=launches, layer=layer
    )
    assert said in done.stderr.splitlines()
    assert done.returncode == -signal.SIGSEGV


@pytest.mark.parametrize("when", full_beyond(["before", "after"], ["after"]))
def test_faulthandler_still_shows_the_python_lines(tmp_path: Path, when: str):
    text = "faulthandler.enable()\n"
    text = f"{text}launch(x, count, out)" if when == "after" else f"launch(x, 1, out)\n{text}"
    done, said = run_far(tmp_path, text + "\nlaunch(x, count, out)", launches=int(when == "after"))
    lines = done.stderr.splitlines()
    assert said in lines
    assert "Fatal Python error: Segmentation fault" in lines
    assert done.returncode == -signal.SIGSEGV


_FAULTS = ["import ctypes; ctypes.string_at(8)", "os.kill(os.getpid(), signal.SIGSEGV)"]


@pytest.mark.parametrize("fault", full_beyond(_FAULTS, _FAULTS[:1]))
def test_a_fault_outside_of_kernels_is_not_claimed(tmp_path: Path, fault: str):
    done, _ = run_far(tmp_path, fault, launches=3)
    assert (done.returncode, done.stderr) == (-signal.SIGSEGV, "")


def test_a_forked_child_says_it_too(tmp_path: Path):
    done, said = run_far(
        tmp_path,
        """
        import warnings
        warnings.simplefilter("ignore")  # Python's, of a fork beside threads, would be between
        if os.fork() == 0:
            launch(x, count, out)
            os._exit(0)
        print(os.WTERMSIG(os.wait()[1]))
        """,
        launches=3,
        layer="omp",
    )
    assert said in done.stderr.splitlines()
    assert done.stdout == f"{int(signal.SIGSEGV)}\n"


# ------------------------------------------------------------------------- interrupts

#: Far less than the launches take. What it is where nothing else runs, is measured alone.
_MOST_S = 5.0


@kd.kernel
def slow_blocks(out, n):
    shared = kd.shared.array(64, kd.float64)
    t = kd.threadIdx.x
    shared[t] = t
    kd.syncthreads()
    a = 0.0
    for i in range(n):
        a = a * 0.5 + shared[(t + i) % 64]
    out[kd.grid(1)] = a


@kd.kernel
def slow_elements(out, n):
    i = kd.grid(1)
    if i < out.size:
        a = 0.0
        for j in range(n):
            a = a * 0.5 + ((i + j) % 7)
        out[i] = a


def launcher(which: str, out: Any) -> Callable[[Any, int], None]:
    if which == "blocks":
        return slow_blocks[out.size // 64, 64]
    return slow_elements.forall(out.size)


def interrupt_after(seconds: float, out: Any) -> list[float]:
    """Send SIGINT so long after a launch has begun to write; the time of it is put into the list.

    So it never comes outside of the launch, however late a busy machine lets that begin.
    """
    out[:] = -1.0
    sent: list[float] = []

    def send() -> None:
        while (out == -1.0).all():  # it may be compiled before
            time.sleep(0.01)
        time.sleep(seconds)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=send, daemon=True).start()
    return sent


@pytest.mark.parametrize("which", ["blocks", "elements"])
@pytest.mark.parametrize("is_repeated", [False, True], ids=["first", "repeated"])
def test_a_launch_is_stopped_by_an_interrupt(which: str, is_repeated: bool):
    require_native()
    out = np.zeros(1 << 20)
    with kd.use("cpu"):
        launch = launcher(which, out)
        if is_repeated:
            warm_up(launch, out, 1)
        sent = interrupt_after(0.1, out)
        made = is_native(launch) if is_repeated else nullcontext()
        with made, pytest.raises(KeyboardInterrupt):
            launch(out, 200_000)  # a minute of work
        assert time.perf_counter() - sent[0] < _MOST_S
        assert (out == -1.0).any()  # what was not reached is as it was
        launch(out, 1)
        assert (out >= 0.0).all()


def test_launches_of_other_threads_go_on():
    out, other = np.zeros(1 << 18), np.full(1 << 18, -1.0)
    with kd.use("cpu"):
        slow_elements.forall(out.size)(out, 1)
        thread = threading.Thread(target=lambda: slow_elements.forall(other.size)(other, 3000))
        thread.start()
        sent = interrupt_after(0.1, out)
        with pytest.raises(KeyboardInterrupt):
            slow_elements.forall(out.size)(out, 100_000)
        assert sent
        thread.join()
    assert (other >= 0.0).all()


@pytest.mark.measures
@pytest.mark.parametrize("which", ["blocks", "elements"])
def test_launches_are_stopped_within_a_tenth_of_a_second(which: str):
    """Half of them after a handler of the program's own."""
    require_native()
    out = np.zeros(1 << 20)
    late = []
    with kd.use("cpu"):
        launch = launcher(which, out)
        warm_up(launch, out, 1)
        for number in range(10):
            if number % 2:
                have_own_handler()
            sent = interrupt_after(0.05 + 0.007 * number, out)
            with is_native(launch), pytest.raises(KeyboardInterrupt):
                launch(out, 20_000)
            late.append(time.perf_counter() - sent[0])
    # All of them, but for one in which another program had the processor.
    assert sorted(late)[-2] < 0.1, late


def have_own_handler() -> None:
    """Do what asyncio's runner does: after it Python's handler stands in the place of ours."""
    signal.signal(signal.SIGINT, lambda number, frame: None)
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.mark.parametrize("is_repeated", [False, True], ids=["python", "native"])
def test_a_launch_is_stopped_after_a_program_has_had_a_handler_of_its_own(is_repeated: bool):
    require_native()
    out = np.zeros(1 << 20)
    with kd.use("cpu"):
        launch = slow_elements.forall(out.size)
        warm_up(launch, out, 1)
        for _ in range(2):
            have_own_handler()
            sent = interrupt_after(0.3, out)
            made = is_native(launch) if is_repeated else machine.suspended()
            with made, pytest.raises(KeyboardInterrupt):
                launch(out, 200_000)
            assert time.perf_counter() - sent[0] < _MOST_S
            assert (out == -1.0).any()


@pytest.mark.parametrize("is_repeated", [False, True], ids=["python", "native"])
def test_an_interrupt_counts_that_came_before_the_handler_was_back(is_repeated: bool):
    """The first piece of this launch takes a tenth of a second or more."""
    require_native()
    out = np.empty(1 << 16)
    with kd.use("cpu"):
        launch = slow_elements.forall(out.size)
        if is_repeated:
            warm_up(launch, np.zeros_like(out), 1)
        have_own_handler()
        sent = interrupt_after(0.05, out)
        made = is_native(launch) if is_repeated else machine.suspended()
        with made, pytest.raises(KeyboardInterrupt):
            launch(out, 300_000)
        assert sent
        assert (out == -1.0).any()


def test_a_launch_is_stopped_that_another_thread_has_prepared():
    """The main thread's first launch is made by native code."""
    require_native()
    code = f"""
import os, signal, sys, threading, time
import numpy as np, kerneldsl as kd
sys.path.insert(0, {str(Path(__file__).parents[5])!r})
from tests.support.native import is_native, require_native, warm_up
from tests.unit.targets.cpu.runtime.test_signals import interrupt_after, slow_elements
require_native()
out = np.zeros(1 << 20)
launch = slow_elements.forall(out.size)
def prepare():
    with kd.use("cpu"):
        warm_up(launch, out, 1)
thread = threading.Thread(target=prepare)
thread.start()
thread.join()
sent = interrupt_after(0.2, out)
with kd.use("cpu"), is_native(launch):
    try:
        launch(out, 200_000)
    except KeyboardInterrupt:
        print("stopped", time.perf_counter() - sent[0])
"""
    done = run_code(code)
    said, seconds = done.stdout.split()
    assert (said, done.stderr) == ("stopped", "")
    assert float(seconds) < _MOST_S


@pytest.mark.full
def test_a_child_that_a_thread_has_forked_is_interrupted():
    require_native()
    code = f"""
import os, signal, sys, threading, time
import numpy as np, kerneldsl as kd
sys.path.insert(0, {str(Path(__file__).parents[5])!r})
from tests.support.native import is_native, require_native, warm_up
from tests.unit.targets.cpu.runtime.test_signals import interrupt_after, slow_elements
require_native()
out = np.zeros(1 << 20)
launch = slow_elements.forall(out.size)
def child():
    with kd.use("cpu"):
        warm_up(launch, out, 1)
        sent = interrupt_after(0.2, out)
        with is_native(launch):
            try:
                launch(out, 100_000)
            except KeyboardInterrupt:
                code = 7 if sent else 8
        os._exit(code)
def fork():
    pid = os.fork()
    if pid == 0:
        child()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
with kd.use("cpu"):
    warm_up(launch, out, 1)
thread = threading.Thread(target=fork)
thread.start()
thread.join()
"""
    done = run_code(code, KERNELDSL_THREADING_LAYER="omp")
    assert (done.stdout, done.stderr) == ("7\n", "")


def run_code(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=120,
        check=False,
    )


def test_a_handler_of_the_programs_own_stops_nothing():
    heard: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: heard.append(number))
    try:
        out = np.empty(1 << 16)
        with kd.use("cpu"):
            interrupt_after(0.05, out)
            while not heard:  # it comes in the first launch, unless the machine is busy
                slow_elements.forall(out.size)(out, 8_000)
                assert (out >= 0.0).all()
        assert heard == [signal.SIGINT]
    finally:
        signal.signal(signal.SIGINT, previous)
