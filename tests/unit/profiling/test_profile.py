"""What a profile records, of whom, and what it leaves as it was."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.launch.dispatch import Dispatcher
from kerneldsl.launch.native import machine
from kerneldsl.profiling.recorder import recorder
from kerneldsl.statistics.collect import fallback_listeners


@kd.kernel
def double(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = 2 * x[i]


@kd.kernel
def long_sum(x, rounds):
    i = kd.grid(1)
    if i < x.size:
        total = x[i]
        for _ in range(rounds):
            total = total * 0.999 + 1.0
        x[i] = total


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    with kd.use("cpu"):
        yield


def counted(profile: kd.Profile, kind: str) -> Counter[str]:
    return Counter(each.name for each in profile.activities if each.kind == kind)


def test_launches_are_recorded_with_their_device_and_times() -> None:
    x = np.ones(1000)
    double.forall(1000)(x)
    with kd.profile() as p:
        for _ in range(5):
            double.forall(1000)(x)
        double[4, 256](x)
    assert counted(p, "launch") == {"double": 6}
    for each in (each for each in p.activities if each.kind == "launch"):
        assert each.device == "cpu"
        assert each.stream == "default"
        assert each.thread == threading.current_thread().name
        assert each.device_ns is not None
        assert each.device_begin_ns is not None
        assert 0 <= each.begin_ns <= each.device_begin_ns
        assert 0 < each.device_ns <= each.host_ns <= p.wall_ns
    assert x[0] == 2.0**7


def test_launches_that_native_code_repeats_are_recorded_one_by_one() -> None:
    x = np.zeros(64)
    launch = double.forall(64)
    bound = launch.bind(x)
    for _ in range(100):
        launch(x)
    with kd.profile() as p:
        for _ in range(50):
            launch(x)
            bound()
    assert counted(p, "launch") == {"double": 100}


def test_native_code_is_made_after_a_profile_and_not_within(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        """
import numpy as np
import kerneldsl as kd

@kd.kernel
def double(x):
    x[kd.grid(1)] *= 2

launch, x = double.forall(64), np.zeros(64)
with kd.use("null"):
    with kd.profile() as p:
        for _ in range(100):
            launch(x)
    from kerneldsl.launch.native import machine
    print(sum(each.kind == "launch" for each in p.activities), machine.is_installed())
    for _ in range(40):
        launch(x)
    print(machine.is_installed() or machine.is_refused())
"""
    )
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["100", "False", "True"]


def test_outside_of_a_profile_nothing_is_replaced() -> None:
    before = vars(Dispatcher)["launch"]
    with kd.profile():
        assert vars(Dispatcher)["launch"] is not before
        assert machine._state[1] == 1
    assert vars(Dispatcher)["launch"] is before
    assert machine._state[1] == 0
    assert not fallback_listeners


def test_copies_allocations_and_waits_are_recorded() -> None:
    host = np.arange(1000.0)
    with kd.profile() as p:
        array = kd.to_device(host)
        array.copy_to_host()
        array.fill(3)
        kd.synchronize("cpu")
        kd.default_stream("cpu").synchronize()
        kd.Event().record().synchronize()
    assert counted(p, "copy") == {"host to device": 1, "device to host": 1, "fill": 1}
    assert {each.nbytes for each in p.activities if each.kind == "copy"} == {8000}
    (allocation,) = (each for each in p.activities if each.kind == "allocation")
    assert (allocation.name, allocation.nbytes) == ("device memory", 8000)
    assert counted(p, "wait")["device"] == 1
    assert counted(p, "wait")["event"] == 1
    assert counted(p, "wait")["stream"] >= 1


def test_compilations_and_cache_hits_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KERNELDSL_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("KERNELDSL_CACHE", "on")

    def make() -> Any:
        @kd.kernel
        def fresh(x):
            x[kd.grid(1)] = 5

        return fresh

    with kd.profile() as p:
        make().forall(8)(np.zeros(8))
        make().forall(8)(np.zeros(8))
    inner = [each for each in p.activities if each.kind in ("compilation", "cache hit")]
    assert [each.kind for each in inner] == ["compilation", "cache hit"]
    first = next(each for each in p.activities if each.kind == "launch")
    for each in inner:
        assert each.depth == 1
        assert each.name == make().__qualname__
        assert (each.device, each.stream) == ("cpu native", "")
    assert inner[0].host_ns <= first.host_ns
    assert counted(p, "load") == {make().__qualname__: 2}


def test_the_sum_of_a_trace_agrees_with_the_wall_clock() -> None:
    x = np.ones(1 << 14)
    launch = long_sum.forall(x.size)
    launch(x, 2000)
    shares = []
    for _ in range(5):  # what else the machine does comes between two launches at times
        with kd.profile() as p:
            started = time.perf_counter_ns()
            for _ in range(20):
                launch(x, 2000)
            elapsed = time.perf_counter_ns() - started
        shares.append(sum(each.host_ns for each in p.activities if each.depth == 0) / elapsed)
        assert p.recorded_ns <= p.wall_ns
    assert 0.97 <= max(shares) <= 1.0


def test_profiles_may_be_nested_and_overlap() -> None:
    x = np.ones(64)
    double.forall(64)(x)
    with kd.profile() as outer:
        double.forall(64)(x)
        with kd.profile() as inner:
            double.forall(64)(x)
        double.forall(64)(x)
        last = kd.profile()
        last.__enter__()
        double.forall(64)(x)
    double.forall(64)(x)
    last.__exit__(None, None, None)
    double.forall(64)(x)
    launches = [counted(each, "launch")["double"] for each in (outer, inner, last)]
    assert launches == [4, 1, 2]
    assert machine._state[1] == 0


def test_threads_are_recorded_each_with_its_own_depth() -> None:
    x = [np.ones(256) for _ in range(4)]
    double.forall(256)(x[0])
    barrier = threading.Barrier(4)

    def work(array: Any) -> None:
        with kd.use("cpu"):
            barrier.wait()
            for _ in range(25):
                double.forall(256)(array)

    with kd.profile() as p:
        threads = [
            threading.Thread(target=work, args=(each,), name=f"w{i}") for i, each in enumerate(x)
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    launches = [each for each in p.activities if each.kind == "launch"]
    assert Counter(each.thread for each in launches) == {f"w{i}": 25 for i in range(4)}
    assert {each.depth for each in launches} == {0}
    assert len({each.thread_id for each in launches}) == 4


def test_a_thread_that_outlives_the_profile_goes_on() -> None:
    x = np.ones(64)
    double.forall(64)(x)
    may_end = threading.Event()
    has_begun = threading.Event()

    def work() -> None:
        with kd.use("cpu"):
            while not may_end.is_set():
                double.forall(64)(x)
                has_begun.set()

    thread = threading.Thread(target=work)
    with kd.profile() as p:
        thread.start()
        has_begun.wait(60)
    count = len(p.activities)
    time.sleep(0.02)
    may_end.set()
    thread.join()
    assert count >= 1
    assert len(p.activities) == count


def test_an_exception_in_the_block_ends_the_profile_and_is_passed_on() -> None:
    x = np.ones(64)
    double.forall(64)(x)
    p = kd.profile()

    def fail() -> None:
        with p:
            double.forall(64)(x)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert counted(p, "launch") == {"double": 1}
    assert machine._state[1] == 0


def test_a_launch_that_fails_is_recorded_with_its_error() -> None:
    with kd.profile() as p, pytest.raises(kd.ArgumentTypeError):
        double.forall(64)(object())
    (launch,) = (each for each in p.activities if each.kind == "launch")
    assert launch.failure == "ArgumentTypeError"
    assert launch.device_ns is None
    (row,) = p.summary().rows
    assert (row.calls, row.failures) == (1, 1)
    # The stack of open spans is empty again.
    x = np.ones(64)
    with kd.profile() as q:
        double.forall(64)(x)
    assert min(each.depth for each in q.activities) == 0


def test_streams_have_rows_of_their_own() -> None:
    x = kd.to_device(np.ones(64))
    double.forall(64)(x)
    one, two = kd.Stream("cpu"), kd.Stream("cpu")
    with kd.profile() as p:
        with one:
            double.forall(64)(x)
            double.forall(64)(x)
        with two:
            double.forall(64)(x)
    rows = [row for row in p.summary(streams=True).rows if row.kind == "launch"]
    assert {row.stream: row.calls for row in rows} == {
        f"{one.handle:#x}": 2,
        f"{two.handle:#x}": 1,
    }
    assert [row.calls for row in p.summary().rows if row.kind == "launch"] == [3]


def test_the_steps_of_a_graph_are_recorded_within_it() -> None:
    x = kd.to_device(np.ones(64))
    double.forall(64)(x)
    stream = kd.Stream("cpu")
    with kd.profile() as p:
        with stream.capture() as graph:
            double.forall(64)(x)
            double.forall(64)(x)
        graph.launch(stream)
    launches = [each for each in p.activities if each.kind == "launch"]
    (replay,) = (each for each in launches if each.name == "graph of 2 steps")
    inner = [each for each in launches if each.depth == replay.depth + 1]
    assert [each.name for each in inner] == ["double", "double"]
    # What was recorded into the graph did not run then.
    captured = [each for each in launches if each.depth == 0 and each.name == "double"]
    assert [each.device_ns for each in captured] == [None, None]
    graph.launch(stream)  # also where the graph holds what was in place within the profile
    assert x.copy_to_host()[0] == 2.0**5
    assert len([each for each in p.activities if each.kind == "launch"]) == len(launches)


def test_a_fallback_is_recorded_with_its_reason() -> None:
    from kerneldsl.statistics.collect import note_fallback

    with kd.profile() as p:
        note_fallback("cuda:7", "no driver")
    (fallback,) = (each for each in p.activities if each.kind == "fallback")
    assert (fallback.device, fallback.detail) == ("cuda:7", "no driver")
    kd.reset_stats()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system does not fork")
def test_a_forked_child_belongs_to_no_profile() -> None:
    x = np.ones(64)
    double.forall(64)(x)
    read, write = os.pipe()
    with kd.profile() as p:
        double.forall(64)(x)
        child = os.fork()
        if child == 0:
            status = b"bad"
            try:
                double.forall(64)(x)
                is_off = machine._state[1] == 0 and not fallback_listeners
                is_left = repr(p).startswith("<Profile, abandoned: 1 activity")
                p.__exit__(None, None, None)
                with kd.profile() as own:
                    double.forall(64)(x)
                is_own = len([e for e in own.activities if e.kind == "launch"]) == 1
                status = b"good" if is_off and is_left and is_own else b"else"
            finally:
                os.write(write, status)
                os._exit(0)
        os.waitpid(child, 0)
        double.forall(64)(x)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        assert answer.read() == b"good"
    assert counted(p, "launch") == {"double": 2}


def test_targets_that_are_made_within_a_profile_are_recorded() -> None:
    from targets.cpu.target import CpuDevice

    with kd.profile() as p:

        class Later(CpuDevice):
            def synchronize(self) -> None:
                """Do nothing."""

        later = Later.from_description(kd.device_info("cpu").device)
        later.synchronize()
    assert counted(p, "wait") == {"device": 1}
    later.synchronize()
    assert counted(p, "wait") == {"device": 1}


def test_a_profile_is_of_one_block_and_says_so() -> None:
    p = kd.profile()
    assert repr(p) == "<Profile that has not begun>"
    assert p.activities == ()
    with p:
        pass
    assert repr(p).startswith("<Profile, ended: 0 activities in ")
    with pytest.raises(kd.ArgumentValueError, match="this profile is ended"), p:
        pass


@pytest.mark.parametrize("bad", [{"by": "gpu"}, {"by": 3}])
def test_a_summary_by_something_else_is_refused(bad: dict[str, Any]) -> None:
    with kd.profile() as p:
        pass
    with pytest.raises(kd.ArgumentValueError, match='"host" or "device"'):
        p.summary(**bad)


def test_ranges_need_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with pytest.raises(kd.ToolMissingError, match="nvtx"):
        kd.profile(nvtx=True)


def test_ranges_are_pushed_and_popped_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []

    class Nvtx:
        @staticmethod
        def push_range(message: str, *, domain: str, category: str) -> None:
            said.append(f"{domain}: {message} ({category})")

        @staticmethod
        def pop_range(*, domain: str) -> None:
            said.append("end")

    monkeypatch.setitem(sys.modules, "nvtx", Nvtx)
    x = np.ones(64)
    double.forall(64)(x)
    with kd.profile(nvtx=True):
        double.forall(64)(x)
    double.forall(64)(x)
    assert said == ["kerneldsl: launch double (launch)", "end"]


def test_the_recorder_is_silent_while_it_is_muted() -> None:
    x = np.ones(64)
    double.forall(64)(x)
    with kd.profile() as p:
        with recorder.muted():
            double.forall(64)(x)
        double.forall(64)(x)
    assert counted(p, "launch") == {"double": 1}


def test_a_profile_may_begin_before_anything_else_is_used() -> None:
    program = (
        "import kerneldsl as kd\n"
        "with kd.profile() as p:\n"
        "    with kd.use('cpu'):\n"
        "        kd.zeros(64)\n"
        "print(sorted({each.kind for each in p.activities}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "['allocation', 'copy']\n", done.stderr
