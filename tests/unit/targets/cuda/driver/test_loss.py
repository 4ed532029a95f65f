"""A lost device, or process, fails fast and names its suspects; finalizers do not notice."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
import weakref
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kerneldsl.contract.error_history import error_log
from kerneldsl.errors import DeviceLostError, DriverError, DriverInitializationError, LaunchError
from targets.cuda.device import memory, streams
from targets.cuda.driver import driver as driver_module
from targets.cuda.driver import functions, retired_modules
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import ForkGuard
from targets.cuda.driver.loss import DeviceWatch
from tests.support.driver_bindings import FakeBindings, Status

_ILLEGAL = Status(700, "CUDA_ERROR_ILLEGAL_ADDRESS")
_ECC = Status(214, "CUDA_ERROR_ECC_UNCORRECTABLE")


def _fatal(number: int = 0, *, loses_process: bool = False) -> DriverError:
    return LaunchError(
        f"Could not wait {number}",
        code=700,
        name="ILLEGAL",
        is_fatal=True,
        loses_process=loses_process,
        remedy="Start a new process",
    )


def _names(suspects: tuple[str, ...]) -> list[str]:
    return [suspect.split()[0] for suspect in suspects]


@pytest.fixture(autouse=True)
def _empty_history() -> None:
    """A history that is full would not grow by what a test adds."""
    error_log.clear()


@pytest.fixture
def api() -> FakeBindings:
    return FakeBindings()


@pytest.fixture
def driver(api: FakeBindings) -> Driver:
    return Driver(api)


def _launch(driver: Driver, index: int, name: str, stream: int = 0, block: int = 32) -> None:
    function = functions.load(driver, index, "", name)
    functions.launch(driver, function, (2, 1, 1), (block, 1, 1), b"", shared_bytes=0, stream=stream)


class _NoParameters(FakeBindings):
    def do_cuLaunchKernel(self, *args: Any) -> tuple[Any, ...]:
        return ()


@pytest.fixture
def launching() -> Driver:
    return Driver(_NoParameters())


def _lose(driver: Driver, index: int, status: Status = _ILLEGAL) -> DriverError:
    driver.api.failures["cuCtxSynchronize"] = status
    with pytest.raises(DriverError) as caught:
        driver.synchronize(index)
    del driver.api.failures["cuCtxSynchronize"]
    return caught.value


def test_the_first_error_names_device_and_suspects(launching: Driver) -> None:
    _launch(launching, 1, "wild", stream=0xA0)
    _launch(launching, 0, "elsewhere")
    error = _lose(launching, 1)
    assert (error.device, error.is_fatal, error.category) == ("cuda:1", True, "launch")
    assert "wild with grid (2, 1, 1) and block (32, 1, 1) in stream 0xa0 on cuda:1" in str(error)
    # It may have been the other device's: the driver tells whoever asks first.
    assert "elsewhere with grid (2, 1, 1) and block (32, 1, 1) on cuda:0" in str(error)


def test_a_fault_of_one_device_has_its_suspects_there(launching: Driver) -> None:
    _launch(launching, 1, "here")
    _launch(launching, 0, "elsewhere")
    error = _lose(launching, 1, _ECC)
    assert (error.device, error.is_fatal, error.loses_process) == ("cuda:1", True, False)
    assert "here with grid" in str(error)
    assert "elsewhere" not in str(error)


def test_afterwards_every_call_fails_at_once(launching: Driver) -> None:
    api = launching.api
    _launch(launching, 0, "wild")
    first = _lose(launching, 0)
    api.calls.clear()
    for call in (
        lambda: launching.synchronize(0),
        lambda: functions.load(launching, 0, "", "next"),
        lambda: streams.synchronize_stream(launching, 0, 5, doing="wait for a stream"),
    ):
        with pytest.raises(DeviceLostError) as caught:
            call()
        error = caught.value
        assert error.suspects == ("wild with grid (2, 1, 1) and block (32, 1, 1) on cuda:0",)
        assert (error.code, error.name, error.device) == (700, first.name, "cuda:0")
        assert error.is_fatal
        assert error.category == "device"
        assert isinstance(error.__cause__, LaunchError)
        assert str(error.__cause__) == str(first)
        assert "Start a new process: every CUDA device is lost to this one" in str(error)
    assert api.calls == []  # the driver is not asked any more


def test_every_device_of_the_process_is_lost_with_it(launching: Driver) -> None:
    api = launching.api
    launching.synchronize(1)
    _launch(launching, 0, "wild")
    _lose(launching, 0)
    api.calls.clear()
    for call in (
        lambda: launching.synchronize(1),
        lambda: functions.load(launching, 1, "", "next"),
        lambda: memory.allocate(launching, 1, 8),
    ):
        with pytest.raises(DeviceLostError) as caught:
            call()
        error = caught.value
        assert error.device == "cuda:1"
        text = "cuda:1 is lost to this process, because cuda:0 failed: could not wait for cuda:0."
        assert str(error).startswith(text)
        assert "(700) no device of cuda can be used" in str(error)
        assert "Start a new process: every CUDA device is lost to this one" in str(error)
        assert _names(error.suspects) == ["wild"]
        assert error.may_be_due_to("wild")
        assert not error.may_be_due_to("tame")
    assert api.calls == []
    assert [str(device) for device in launching.devices()] == ["cuda:0", "cuda:1"]


def test_other_devices_go_on_after_a_fault_of_one(launching: Driver) -> None:
    _launch(launching, 0, "unlucky")
    _lose(launching, 0, _ECC)
    launching.synchronize(1)
    _launch(launching, 1, "tame")
    assert not launching.watch.is_lost(1)
    with pytest.raises(DeviceLostError) as caught:
        launching.synchronize(0)
    text = str(caught.value)
    assert text.startswith("cuda:0 is lost to this process: could not wait for cuda:0.")
    assert "(214) cuda:0 cannot be used in the same process" in text
    assert "or use another device" in text
    # The second answers too after all: then that one is lost as well, by its own error.
    _lose(launching, 1, _ECC)
    with pytest.raises(DeviceLostError, match="cuda:1 is lost to this process: could not wait"):
        launching.synchronize(1)


def test_an_error_where_no_device_is_current_loses_the_process_too(driver: Driver) -> None:
    driver.api.failures["cuDeviceGetCount"] = _ILLEGAL
    with pytest.raises(LaunchError) as caught:
        driver.call(driver.api.cuDeviceGetCount, doing="count devices")
    assert caught.value.device is None
    with pytest.raises(DeviceLostError, match=r"^cuda:1 is lost to this process: could not count"):
        driver.synchronize(1)


def test_the_device_is_named_whatever_is_current_afterwards(launching: Driver) -> None:
    api = launching.api
    launching.synchronize(1)
    _launch(launching, 0, "unlucky")
    other = launching.contexts[1][1]
    api.current = other  # another library works with the second device in this thread
    api.failures["cuLaunchKernel"] = _ECC
    with pytest.raises(DriverError) as caught:
        _launch(launching, 0, "next")
    assert caught.value.device == "cuda:0"
    assert (launching.watch.is_lost(0), launching.watch.is_lost(1)) == (True, False)
    assert api.current == other


def test_who_is_told_a_little_later_gets_the_first_error_as_the_cause(launching: Driver) -> None:
    """Two threads wait at once, and both are answered with the same error."""
    _launch(launching, 0, "wild")
    first = launching.failure(_ILLEGAL, "wait for cuda:0", index=0)
    launching.watch.launches(0).append(("late", (1, 1, 1), (1, 1, 1), 0))
    second = launching.failure(_ILLEGAL, "copy 8 bytes", index=1)
    assert isinstance(first, LaunchError)
    assert isinstance(second, DeviceLostError)
    assert second.doing == "copy 8 bytes"
    assert str(second.__cause__) == str(first)
    # What a third thread had started before, and noted only now, may have done it too.
    assert _names(second.suspects) == ["wild", "late"]
    assert second.may_be_due_to("late")


def test_a_loss_that_was_swallowed_is_news_once(launching: Driver) -> None:
    _launch(launching, 0, "wild")
    error = launching.failure(_ILLEGAL, "unload k", index=0)
    launching.suppress(error, 0)
    assert error_log.entries()[-1].was_swallowed
    told = []
    for index in (1, 0, 1):
        with pytest.raises(DeviceLostError) as caught:
            launching.synchronize(index)
        told.append(caught.value.is_news)
    assert told == [True, False, False]


def test_a_launch_that_reports_an_earlier_failure_is_no_suspect(launching: Driver) -> None:
    _launch(launching, 0, "wild")
    launching.api.failures["cuLaunchKernel"] = _ILLEGAL
    with pytest.raises(LaunchError, match="launch innocent with grid"):
        _launch(launching, 0, "innocent")
    with pytest.raises(DeviceLostError) as caught:
        launching.synchronize(0)
    assert _names(caught.value.suspects) == ["wild"]


def test_waiting_clears_of_suspicion(launching: Driver) -> None:
    _launch(launching, 0, "earlier")
    launching.synchronize(0)
    _launch(launching, 0, "later")
    assert _names(launching.watch.suspects(0)) == ["later"]


def test_waiting_for_a_stream_clears_that_stream(launching: Driver) -> None:
    _launch(launching, 0, "here", stream=5)
    _launch(launching, 0, "there", stream=6)
    streams.synchronize_stream(launching, 0, 5, doing="wait for a stream")
    assert _names(launching.watch.suspects(0)) == ["there"]


def test_an_error_that_is_not_fatal_loses_nothing(launching: Driver) -> None:
    launching.api.failures["cuLaunchKernel"] = Status(701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES")
    with pytest.raises(LaunchError, match="smaller block"):
        _launch(launching, 0, "greedy")
    assert not launching.watch.is_lost(0)
    launching.synchronize(0)


def test_without_launches_of_ours_nobody_is_suspected(driver: Driver) -> None:
    _lose(driver, 0)
    with pytest.raises(DeviceLostError, match="another library") as caught:
        driver.synchronize(0)
    assert caught.value.suspects == ()


def test_modules_on_a_lost_device_are_forgotten_silently(launching: Driver) -> None:
    functions_noted = [functions.load(launching, 0, "", name) for name in ("wild", "other")]
    retired_modules.retire(launching, functions_noted[0])
    _lose(launching, 0)
    retired_modules.retire(launching, functions_noted[1])
    launching.api.calls.clear()
    before = len(error_log)
    retired_modules.unload_finished()
    assert launching.api.calls == []
    assert len(error_log) == before


def test_an_error_of_unloading_is_written_down_as_swallowed(launching: Driver) -> None:
    retired_modules.retire(launching, functions.load(launching, 0, "", "k"))
    launching.api.failures["cuModuleUnload"] = Status(400, "CUDA_ERROR_INVALID_HANDLE")
    retired_modules.unload_finished()
    newest = error_log.entries()[-1]
    assert newest.was_swallowed
    assert newest.doing == "unload k"


def test_a_flood_is_one_entry(driver: Driver) -> None:
    _lose(driver, 0)
    before = len(error_log.entries())
    for _ in range(50):
        with pytest.raises(DeviceLostError):
            driver.synchronize(0)
    newest = error_log.entries()
    assert len(newest) == before + 1
    assert newest[-1].count == 50


def test_an_error_keeps_nothing_of_its_frames_alive() -> None:
    class Big:
        pass

    watch = DeviceWatch("cuda")
    big = Big()
    reference = weakref.ref(big)

    def fail(held: Big) -> None:
        raise _fatal()

    try:
        fail(big)
    except DriverError as error:
        watch.report(0, error)
    del big
    gc.collect()
    assert reference() is None
    assert watch.is_lost(0)


def test_of_several_errors_the_first_counts() -> None:
    watch = DeviceWatch("cuda")
    for loses_process in (False, True):
        watch.report(0, _fatal(1, loses_process=loses_process))
        watch.report(0, _fatal(2, loses_process=loses_process))
        with pytest.raises(DeviceLostError, match="could not wait 1"):
            watch.check(0)
        if not loses_process:
            watch.check(1)
    with pytest.raises(DeviceLostError, match="because cuda:0 failed: could not wait 1"):
        watch.check(1)


def test_a_lost_device_error_can_travel() -> None:
    watch = DeviceWatch("cuda")
    watch.launches(0).append(("k", (1, 1, 1), (2, 1, 1), 0))
    watch.report(0, _fatal())
    error = watch.loss(0, "launch again")
    assert error.suspects == ("k with grid (1, 1, 1) and block (2, 1, 1) on cuda:0",)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):  # noqa: S301
        assert (other.suspects, other.kernels) == (error.suspects, frozenset({"k"}))
        assert (other.may_be_due_to("k"), other.may_be_due_to("grid")) == (True, False)


def test_repeated_launches_are_one_line() -> None:
    watch = DeviceWatch("cuda")
    again, other = ("k", (1, 1, 1), (2, 1, 1), 0), ("graph", None, None, 5)
    watch.launches(1).extend([again, other, again, again, (("a", "b"), None, None, 0)])
    assert (
        watch.suspects(1)
        == watch.suspects()
        == (
            "graph in stream 0x5 on cuda:1",
            "k with grid (1, 1, 1) and block (2, 1, 1) on cuda:1, 3 times",
            "a graph of a, b on cuda:1",
        )
    )
    watch.report(1, _fatal())
    assert watch.loss(1).kernels == {"k", "graph", "a", "b"}


def test_where_launches_were_forgotten_no_kernel_is_cleared() -> None:
    watch = DeviceWatch("cuda")
    for number in range(1000):
        watch.launches(0).append((f"k{number}", (1, 1, 1), (1, 1, 1), number % 2))
    finished = watch.in_flight(0)
    watch.mark_finished(
        0, finished, 0
    )  # the eldest, now forgotten, may have been in the other stream
    watch.report(0, _fatal())
    error = watch.loss(0)
    assert len(error.suspects) == len(finished) // 2
    assert error.may_be_due_to("k1")
    assert len(str(error).splitlines()) < 25
    assert "earlier ones" in str(error)


def test_a_wait_for_everything_clears_what_was_forgotten() -> None:
    watch = DeviceWatch("cuda")
    for _ in range(1000):
        watch.launches(0).append(("k", (1, 1, 1), (1, 1, 1), 7))
    watch.mark_finished(0, watch.in_flight(0), 3)
    watch.mark_finished(0, watch.in_flight(0), 7)
    watch.launches(0).append(("last", (1, 1, 1), (1, 1, 1), 7))
    forgetful = copy.deepcopy(watch._has_forgotten)
    watch.mark_finished(0, watch.in_flight(0))
    assert (forgetful, watch._has_forgotten) == ({0}, set())
    watch.launches(0).append(("newest", (1, 1, 1), (1, 1, 1), 7))
    watch.report(0, _fatal())
    assert watch.loss(0).kernels == {"newest"}


def test_a_function_the_library_lacks_is_an_old_driver(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise RuntimeError('Function "cuCtxSynchronize" not found')

    monkeypatch.setattr(driver.api, "cuCtxSynchronize", missing, raising=False)
    with pytest.raises(DriverInitializationError, match=r"CUDA 12\.4.*Update the NVIDIA driver"):
        driver.synchronize(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_child_finds_no_context_and_is_told_to_spawn(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = ForkGuard()
    monkeypatch.setattr(driver_module, "fork_guard", guard)
    driver.synchronize(0)
    guard.arm(driver.contexts.clear)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        driver.api.calls.clear()
        try:
            driver.synchronize(0)
            answer = "not noticed"
        except DriverInitializationError as error:
            answer = f"{error} calls={driver.api.calls}"
        os.write(writer, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    said = os.read(reader, 4096).decode()
    assert "spawn" in said
    assert said.endswith("calls=[]")
    driver.synchronize(0)


def test_where_processes_cannot_fork_nothing_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "register_at_fork", raising=False)
    guard = ForkGuard()
    guard.arm()
    guard.check()


class WatchMachine(RuleBasedStateMachine):
    """The watch against a list of what is in flight."""

    def __init__(self) -> None:
        super().__init__()
        self.watch = DeviceWatch("cuda")
        self.flying: dict[int, list[tuple[str, int]]] = {0: [], 1: []}
        self.lost: set[int] = set()
        self.lost_process_by: int | None = None
        self.serial = 0

    @rule(index=st.integers(0, 1), stream=st.sampled_from([0, 5, 6]))
    def launch(self, index: int, stream: int) -> None:
        name = f"k{self.serial}"
        self.serial += 1
        self.watch.launches(index).append((name, (1, 1, 1), (1, 1, 1), stream))
        self.flying[index].append((name, stream))

    @rule(index=st.integers(0, 1), stream=st.sampled_from([None, 0, 5, 6]))
    def wait(self, index: int, stream: int | None) -> None:
        self.watch.mark_finished(index, self.watch.in_flight(index), stream)
        self.flying[index] = [
            (n, s) for n, s in self.flying[index] if stream is not None and s != stream
        ]

    @rule(index=st.integers(0, 1))
    def wait_while_another_thread_launches(self, index: int) -> None:
        before = self.watch.in_flight(index)
        self.launch(index, 0)
        self.watch.mark_finished(index, before)
        self.flying[index] = self.flying[index][-1:]

    @rule(index=st.integers(0, 1))
    def fail(self, index: int) -> None:
        self.watch.report(index, _fatal())
        self.lost.add(index)

    @rule(index=st.integers(0, 1))
    def fail_for_all(self, index: int) -> None:
        self.watch.report(index, _fatal(loses_process=True))
        if self.lost_process_by is None:
            self.lost_process_by = index

    def _names(self, index: int) -> list[str]:
        return [name for name, _ in self.flying[index]]

    @invariant()
    def suspects_are_what_flies(self) -> None:
        for index in (0, 1):
            assert _names(self.watch.suspects(index)) == self._names(index)
            is_lost = index in self.lost or self.lost_process_by is not None
            assert self.watch.is_lost(index) == is_lost
            if not is_lost:
                continue
            error = self.watch.loss(index)
            where, suspects = index, self._names(index)
            if index not in self.lost:
                assert self.lost_process_by is not None
                where, suspects = self.lost_process_by, [*self._names(0), *self._names(1)]
            assert _names(error.suspects) == suspects
            assert error.kernels == set(suspects)
            assert (f"because cuda:{where} failed" in str(error)) == (where != index)


TestWatch = WatchMachine.TestCase


def test_launching_hands_over_no_more_than_before(api: FakeBindings, driver: Driver) -> None:
    function = functions.load(driver, 0, "", "k")
    api.calls.clear()
    packed = bytes(8)
    functions.launch(driver, function, (1, 1, 1), (1, 1, 1), packed, shared_bytes=0, stream=0)
    assert api.names() == ["cuCtxGetCurrent", "cuLaunchKernel"]
    assert ctypes.sizeof(ctypes.c_void_p) == 8
