"""Timing launches by events, against bindings that only remember what they were asked."""

from __future__ import annotations

import gc
import itertools
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldsl.errors import DeviceLostError
from targets.cuda.device import events as timer_module
from targets.cuda.device.events import start_timer
from targets.cuda.driver.driver import Driver
from tests.support.driver_bindings import FakeBindings, Status

_NOT_READY = Status(600, "CUDA_ERROR_NOT_READY")


class TimerBindings(FakeBindings):
    """With events, which last as long as `elapsed_ms` says."""

    CUevent_flags = SimpleNamespace(CU_EVENT_DEFAULT=0, CU_EVENT_DISABLE_TIMING=2)
    CUstreamCaptureStatus = SimpleNamespace(CU_STREAM_CAPTURE_STATUS_NONE=0)
    CUresult = SimpleNamespace(CUDA_ERROR_NOT_READY=600)

    def __init__(self) -> None:
        super().__init__()
        self._events = itertools.count(0xE0)
        self.capturing = 0
        self.elapsed_ms = 0.25

    def do_cuEventCreate(self, flags: int) -> tuple[Any, ...]:
        return (next(self._events),)

    def do_cuStreamIsCapturing(self, stream: int) -> tuple[Any, ...]:
        return (self.capturing,)

    def do_cuEventElapsedTime(self, start: int, end: int) -> tuple[Any, ...]:
        return (self.elapsed_ms,)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> TimerBindings:
    monkeypatch.setattr(timer_module, "_idle", {})
    return TimerBindings()


@pytest.fixture
def driver(api: TimerBindings) -> Driver:
    return Driver(api)


def recorded(api: TimerBindings) -> list[tuple[Any, ...]]:
    return [call[1:] for call in api.calls if call[0] == "cuEventRecord"]


def test_two_events_around_a_launch(driver: Driver, api: TimerBindings) -> None:
    timer = start_timer(driver, 1, 0x77)
    assert timer is not None
    assert timer.elapsed_ns() == -1  # never stopped: the launch was refused
    timer.stop()
    assert recorded(api) == [(0xE0, 0x77), (0xE1, 0x77)]
    assert timer.elapsed_ns() == 250_000
    assert api.calls[-1][0] in ("cuEventElapsedTime", "cuCtxSetCurrent")
    assert "cuEventSynchronize" not in api.names()


def test_it_does_not_wait(driver: Driver, api: TimerBindings) -> None:
    timer = start_timer(driver, 0, None)
    assert timer is not None
    timer.stop()
    api.failures["cuEventQuery"] = _NOT_READY
    assert timer.elapsed_ns() is None
    del api.failures["cuEventQuery"]
    assert timer.elapsed_ns() == 250_000


def test_the_begin_is_told_by_the_first_events_of_two_timers(
    driver: Driver, api: TimerBindings
) -> None:
    first, second = start_timer(driver, 0, None), start_timer(driver, 0, 0x77)
    assert first is not None
    assert second is not None
    first.stop()
    second.stop()
    api.elapsed_ms = 1.5
    assert second.begin_ns_since(first) == 1_500_000
    (asked,) = [call[1:] for call in api.calls if call[0] == "cuEventElapsedTime"]
    started = [event for event, _ in recorded(api)[:2]]
    assert asked == tuple(started)


def test_of_a_lost_device_the_begin_is_not_known(driver: Driver, api: TimerBindings) -> None:
    first, second = start_timer(driver, 0, None), start_timer(driver, 0, None)
    assert first is not None
    assert second is not None
    api.failures["cuEventElapsedTime"] = Status(700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert second.begin_ns_since(first) is None
    del api.failures["cuEventElapsedTime"]
    assert second.begin_ns_since(first) is None


def test_events_are_used_again_on_their_device(driver: Driver, api: TimerBindings) -> None:
    for index in (0, 0, 1, 1, 0):
        timer = start_timer(driver, index, None)
        del timer
        gc.collect()
    assert api.names().count("cuEventCreate") == 4
    first, second = start_timer(driver, 0, None), start_timer(driver, 0, None)
    assert first is not None
    assert second is not None
    assert api.names().count("cuEventCreate") == 6


def test_a_recorded_stream_is_not_timed(driver: Driver, api: TimerBindings) -> None:
    api.capturing = 1
    assert start_timer(driver, 0, 0x77) is None
    api.capturing = 0
    api.failures["cuStreamIsCapturing"] = Status(906, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT")
    assert start_timer(driver, 0, None) is None
    assert recorded(api) == []


@pytest.mark.parametrize("call", ["cuEventCreate", "cuEventRecord"])
def test_what_cannot_be_timed_is_launched_all_the_same(
    driver: Driver, api: TimerBindings, call: str
) -> None:
    api.failures[call] = Status(2, "CUDA_ERROR_OUT_OF_MEMORY")
    assert start_timer(driver, 0, None) is None


def test_a_device_that_is_lost_meanwhile(driver: Driver, api: TimerBindings) -> None:
    timer = start_timer(driver, 0, None)
    assert timer is not None
    api.failures["cuEventRecord"] = Status(700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    timer.stop()
    assert timer.elapsed_ns() == -1
    other = Driver(TimerBindings())
    timer = start_timer(other, 0, None)
    assert timer is not None
    timer.stop()
    other.api.failures["cuEventElapsedTime"] = Status(700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    assert timer.elapsed_ns() == -1
    for lost in (driver, other):  # a time that cannot be read raises nothing, so the next call does
        with pytest.raises(DeviceLostError) as caught:
            lost.synchronize(0)
        assert caught.value.is_news
    assert start_timer(other, 0, None) is None
