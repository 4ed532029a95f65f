"""Times of devices that work behind the host's back: read later, and placed on the host's clock."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract import LaunchTimer, Tracer
from kerneldsl.profiling import recorder as recorder_module
from kerneldsl.profiling.timeline import trace_of
from targets.null.device import NullDevice


@kd.kernel
def double(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = 2 * x[i]


class Timer(LaunchTimer):
    """A timer of a device that has done nothing before it is waited for."""

    def __init__(self, number: int, clock: Clock) -> None:
        self.number = number
        self.clock = clock
        self.is_stopped = False

    def stop(self) -> None:
        self.is_stopped = True

    def elapsed_ns(self) -> int | None:
        assert self.is_stopped
        if self.clock.is_lost:
            return -1
        return 100 + self.number if self.number < self.clock.done else None

    def begin_ns_since(self, earlier: LaunchTimer) -> int | None:
        assert isinstance(earlier, Timer)
        return 1000 * (self.number - earlier.number)


class Clock:
    """The timers of a device, and how many of them it has come to."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []
        self.done = 0
        self.waits = 0
        self.is_lost = False

    def start(self, device: NullDevice, stream: Any) -> Timer:
        self.timers.append(Timer(len(self.timers), self))
        return self.timers[-1]

    def wait(self, device: NullDevice) -> None:
        self.done = len(self.timers)
        self.waits += 1


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    made = Clock()
    monkeypatch.setattr(NullDevice, "start_timer", lambda *args: made.start(*args), raising=False)
    monkeypatch.setattr(NullDevice, "synchronize", lambda *args: made.wait(*args))
    with kd.use("null"):
        yield made


def launches(profile: kd.Profile) -> list[kd.Activity]:
    return [each for each in profile.activities if each.kind == "launch"]


def test_times_are_read_once_the_device_has_come_to_them(clock: Clock) -> None:
    x = kd.to_device(np.ones(64))
    double.forall(64)(x)
    with kd.profile() as p:
        for _ in range(3):
            double.forall(64)(x)
        assert [each.device_ns for each in launches(p)] == [None] * 3
        assert clock.waits == 0
    found = launches(p)
    assert clock.waits == 1
    assert [each.device_ns for each in found] == [t.elapsed_ns() for t in clock.timers[-3:]]
    begins = [each.device_begin_ns for each in found]
    assert begins[0] is not None
    assert [begin - begins[0] for begin in begins if begin is not None] == [0, 1000, 2000]
    assert found[0].begin_ns <= begins[0] <= found[0].begin_ns + found[0].host_ns
    # To wait for the devices is nobody's activity.
    assert not [each for each in p.activities if each.kind == "wait"]
    row = next(row for row in p.summary("device").rows if row.kind == "launch")
    assert row.total_ns == row.device_ns == sum(each.device_ns or 0 for each in found)


def test_a_staged_launch_has_its_copies_and_waits_within_it(clock: Clock) -> None:
    x = np.ones(64)
    with kd.profile() as p:
        double.forall(64)(x)
    (launch,) = launches(p)
    inner = [each for each in p.activities if each.depth == 1]
    copies = [each for each in inner if each.kind == "copy"]
    assert [each.name for each in copies] == ["host to device", "device to host"]
    assert {each.nbytes for each in copies} == {512}
    assert None not in [each.device_ns for each in copies]
    assert [each.name for each in inner if each.kind == "wait"] == ["device"]
    assert sum(each.host_ns for each in inner) <= launch.host_ns
    assert launch.device.startswith("null")


def test_timers_do_not_pile_up(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "_MAX_PENDING", 4)
    x = kd.to_device(np.ones(64))
    double.forall(64)(x)
    with kd.profile():
        for _ in range(10):
            double.forall(64)(x)
            clock.done = len(clock.timers)
            assert len(recorder_module.recorder._pending) <= 5


def test_of_a_lost_device_times_are_not_known(clock: Clock) -> None:
    x = kd.to_device(np.ones(64))
    double.forall(64)(x)
    with kd.profile() as p:
        double.forall(64)(x)
        clock.is_lost = True
    (launch,) = launches(p)
    assert launch.device_ns is launch.device_begin_ns is None
    row = next(row for row in p.summary("device").rows if row.kind == "launch")
    assert (row.calls, row.timed, row.total_ns, row.bytes_per_s) == (1, 0, None, None)


def test_streams_of_a_device_are_tracks_of_a_trace(clock: Clock) -> None:
    x = kd.to_device(np.ones(64))
    streams = [kd.Stream("null"), kd.Stream("null")]
    double.forall(64)(x)
    with kd.profile() as p:
        for stream in streams:
            with stream:
                double.forall(64)(x)
        clock.done = len(clock.timers)
    events = trace_of(p.activities)["traceEvents"]
    names = [each["args"]["name"] for each in events if each["name"] == "thread_name"]
    assert {f"stream {each.handle:#x}" for each in streams} <= set(names)


class Tracing(Tracer):
    """A tool that times by the same clock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.flushes = self.started = 0
        self.is_open = True

    def start_timer(self, stream: Any) -> Timer:
        self.started += 1
        timer = Timer(len(self.clock.timers), self.clock)
        self.clock.timers.append(timer)
        return timer

    def flush(self) -> None:
        assert self.is_open
        self.flushes += 1

    def close(self) -> None:
        self.is_open = False


def test_a_tool_times_where_it_is_wanted(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = Tracing(clock)
    monkeypatch.setattr(NullDevice, "trace", lambda device: tool, raising=False)
    monkeypatch.setitem(sys.modules, "cupti", SimpleNamespace(__spec__=object()))
    x = kd.to_device(np.ones(64))
    double.forall(64)(x)
    with kd.profile():
        double.forall(64)(x)
    assert tool.started == 0
    with kd.profile(cupti=True) as p:
        double.forall(64)(x)
    assert tool.started == 1
    (launch,) = launches(p)
    assert launch.device_ns == clock.timers[-1].elapsed_ns()
    assert tool.flushes >= 1
    assert not tool.is_open


def test_without_its_package_a_tool_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "cupti", raising=False)
    monkeypatch.setattr("kerneldsl.profiling.profile.find_spec", lambda name: None)
    with pytest.raises(kd.ToolMissingError, match="cupti-python"):
        kd.profile(cupti=True)
