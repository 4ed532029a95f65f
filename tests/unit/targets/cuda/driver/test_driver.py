"""The driver module against bindings that only remember what they were asked."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import struct
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from kerneldsl.errors import (
    CompileError,
    DriverError,
    DriverInitializationError,
    OutOfMemoryError,
    ResourceLimitError,
    TargetUnavailableError,
)
from targets.cuda.device import memory, streams
from targets.cuda.driver import driver as driver_module
from targets.cuda.driver import functions
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import ForkGuard
from targets.cuda.target import CudaTarget
from tests.support.cuda_memory import device_of
from tests.support.driver_bindings import ATTRIBUTES, FakeBindings, Status


@pytest.fixture
def api() -> FakeBindings:
    return FakeBindings()


@pytest.fixture
def driver(api: FakeBindings) -> Driver:
    return Driver(api)


def test_devices_are_described_by_the_drivers_attributes(driver: Driver) -> None:
    first, second = driver.devices()
    assert (str(first), str(second)) == ("cuda:0", "cuda:1")
    assert (first.name, first.arch) == ("Old Card", "sm_61")
    assert first.limits.max_grid_dim == (2**31 - 1, 65535, 65535)
    assert first.limits.max_shared_memory_per_block == 49152  # no opt-in: the plain limit
    assert first.extra["compute_capability"] == (6, 1)
    assert driver.cuda_version == (12, 4)


def test_a_device_newer_than_the_table_runs_the_newest_ptx(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR", 99)
    assert driver.devices()[0].arch == "sm_121"


def test_the_context_before_is_put_back(driver: Driver, api: FakeBindings) -> None:
    api.current = 0xF00
    with driver.current(1):
        assert api.current == 0x1001
    assert api.current == 0xF00


def test_a_current_context_costs_one_question(driver: Driver, api: FakeBindings) -> None:
    with driver.current(0):
        pass
    api.calls.clear()
    with driver.current(0):
        pass
    assert api.names() == ["cuCtxGetCurrent"]


def test_no_context_before_stays_none_for_other_devices(driver: Driver, api: FakeBindings) -> None:
    with driver.current(1):
        pass
    assert api.current == 0  # else torch would find device 1 current


def test_an_error_says_what_was_done_and_what_to_do(driver: Driver, api: FakeBindings) -> None:
    api.failures["cuCtxSynchronize"] = Status(700, "CUDA_ERROR_ILLEGAL_ADDRESS")
    with pytest.raises(DriverError, match=r"Could not wait for cuda:0.*debug=True") as caught:
        driver.synchronize(0)
    assert (caught.value.code, caught.value.name) == (700, "CUDA_ERROR_ILLEGAL_ADDRESS")


def test_out_of_memory_says_how_much_is_free(driver: Driver, api: FakeBindings) -> None:
    api.failures["cuMemAlloc"] = Status(2, "CUDA_ERROR_OUT_OF_MEMORY")
    with pytest.raises(DriverError, match=r"allocate 4096 bytes on cuda:0 \(10 of 2147483648"):
        memory.allocate(driver, 0, 4096)


def test_a_buffer_is_freed_on_its_device(driver: Driver, api: FakeBindings) -> None:
    buffer = memory.CudaBuffer(driver, driver.devices()[1], 64)
    api.calls.clear()
    del buffer
    assert ("cuMemFree", 0xABC00) in api.calls
    assert api.calls.index(("cuCtxSetCurrent", 0x1001)) < api.calls.index(("cuMemFree", 0xABC00))


def test_an_empty_buffer_calls_nothing(driver: Driver, api: FakeBindings) -> None:
    device = driver.devices()[0]
    api.calls.clear()
    assert memory.CudaBuffer(driver, device, 0).pointer == 0
    assert api.calls == []


def test_copies_wait_where_the_contract_says(
    driver: Driver, api: FakeBindings, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = device_of(driver, monkeypatch)
    device.copy_from_host(1, 2, 3, 5)
    device.copy_to_host(1, 2, 3, 5)
    calls = [name for name in api.names() if name.startswith(("cuMemcpy", "cuStream"))]
    assert calls == [
        "cuMemcpyHtoDAsync",
        "cuStreamSynchronize",
        "cuMemcpyDtoHAsync",
        "cuStreamSynchronize",
    ]


@pytest.mark.parametrize(("value", "is_named"), [(None, False), ("0", False), ("1", True)])
def test_a_copy_in_the_default_stream_is_never_left_to_that_of_the_thread(
    api: FakeBindings, monkeypatch: pytest.MonkeyPatch, value: str | None, is_named: bool
) -> None:
    """The bindings can take calls that name no stream, or stream 0, for the thread's own."""
    name = "CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM"
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    device = device_of(Driver(api), monkeypatch)
    device.copy_from_host(1, 2, 3)
    device.copy_to_host(1, 2, 3)
    calls = [call for call in api.calls if call[0].startswith(("cuMemcpy", "cuStream"))]
    if is_named:
        assert [call[0] for call in calls] == [
            "cuMemcpyHtoDAsync",
            "cuStreamSynchronize",
            "cuMemcpyDtoHAsync",
            "cuStreamSynchronize",
        ]
        assert {call[-1] for call in calls} == {1}
    else:  # one call less
        assert [call[0] for call in calls] == ["cuMemcpyHtoD", "cuMemcpyDtoH"]


def test_a_loaded_function_knows_its_resources(driver: Driver) -> None:
    found = functions.load(driver, 0, ".version 7.0", "axpy").resources
    assert (found.registers, found.spill_bytes, found.local_bytes) == (40, 16, 0)
    assert (found.static_shared_bytes, found.max_block_threads) == (1024, 512)


def test_the_assemblers_log_reaches_the_user(driver: Driver, api: FakeBindings) -> None:
    api.failures["cuModuleLoadDataEx"] = Status(218, "CUDA_ERROR_INVALID_PTX")
    api.error_log = b"ptxas application ptx input, line 7; fatal : Parsing error"
    with pytest.raises(CompileError, match=r"could not assemble axpy[\s\S]*line 7; fatal") as info:
        functions.load(driver, 0, "nonsense", "axpy")
    assert isinstance(info.value.__cause__, DriverError)


def test_a_launch_hands_over_the_packed_parameters(driver: Driver, api: FakeBindings) -> None:
    function = functions.load(driver, 0, "", "axpy")
    packed = struct.pack("=fxxxxQ", 1.5, 0xABC00)
    functions.launch(driver, function, (1, 2, 3), (4, 5, 6), packed, shared_bytes=7, stream=8)
    assert api.launched == packed
    call = next(call for call in api.calls if call[0] == "cuLaunchKernel")
    assert call[1:11] == (0x99, 1, 2, 3, 4, 5, 6, 7, 8, 0)


@pytest.mark.parametrize(
    ("together", "attributes"),
    [
        ({"is_cooperative": True}, ["COOPERATIVE"]),
        ({"cluster_dim": (2, 1, 1)}, ["CLUSTER_DIMENSION"]),
        ({"is_early": True}, ["PROGRAMMATIC_STREAM_SERIALIZATION"]),
    ],
)
def test_blocks_that_run_together_get_their_parameters_one_by_one(
    driver: Driver, api: FakeBindings, together: dict[str, Any], attributes: list[str]
) -> None:
    function = functions.load(driver, 0, "", "axpy")
    packed = struct.pack("=fxxxxi", 1.5, 77)
    functions.launch(
        *(driver, function, (2, 1, 1), (4, 5, 6), packed),
        **{"shared_bytes": 7, "stream": 8, "offsets": [0, 8], **together},
    )
    assert api.attributes == attributes
    assert api.launched_one_by_one == [packed[:4], packed[8:12]]


def test_a_kernel_may_get_some_of_the_parameters(driver: Driver, api: FakeBindings) -> None:
    function = functions.load(driver, 0, "", "axpy")
    packed = struct.pack("=fiii", 1.5, 77, 88, 99)
    functions.launch(
        *(driver, function, (2, 1, 1), (4, 5, 6), packed),
        **{"shared_bytes": 7, "stream": 8, "offsets": [4, 12], "by_address": True},
    )
    assert api.launched_one_by_one == [packed[4:8], packed[12:16]]
    assert api.launched == b""


def test_too_many_parameters_never_reach_the_driver(driver: Driver, api: FakeBindings) -> None:
    function = functions.load(driver, 0, "", "axpy")
    with pytest.raises(ResourceLimitError, match="32765 bytes of parameters"):
        functions.launch(
            driver, function, (1, 1, 1), (1, 1, 1), bytes(32765), shared_bytes=0, stream=0
        )
    assert "cuLaunchKernel" not in api.names()


def test_streams_are_ordered_by_an_event(driver: Driver, api: FakeBindings) -> None:
    streams.wait_stream(driver, 0, later=5, sooner=6)
    calls = [call for call in api.calls if "Event" in call[0]]
    assert calls == [
        ("cuEventCreate", 2),
        ("cuEventRecord", 0xE, 6),
        ("cuStreamWaitEvent", 5, 0xE, 0),
        ("cuEventDestroy", 0xE),
    ]


def test_a_forked_child_is_told_to_spawn() -> None:
    guard = ForkGuard()
    guard.arm()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        answer = str(guard.error()) if guard.has_forked else "not noticed"
        os.write(writer, answer.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert "spawn" in os.read(reader, 4096).decode()
    assert not guard.has_forked


def _hide_bindings(monkeypatch: pytest.MonkeyPatch, replacement: Any) -> None:
    monkeypatch.setattr(driver_module, "_driver", None)
    monkeypatch.setitem(sys.modules, "cuda.bindings", replacement)


def test_missing_bindings_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    _hide_bindings(monkeypatch, None)
    with pytest.raises(TargetUnavailableError, match=r"kerneldsl\[cuda13\]"):
        driver_module.get_driver()
    assert "kerneldsl[cuda13]" in (CudaTarget().unavailable_reason() or "")
    assert CudaTarget().devices() == ()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch, api: FakeBindings) -> None:
    def refuse(self: FakeBindings, flags: int) -> tuple[Any, ...]:
        raise RuntimeError("Failed to dlopen libcuda.so.1")

    monkeypatch.setattr(FakeBindings, "do_cuInit", refuse)
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    assert "libcuda.so.1" in (CudaTarget().unavailable_reason() or "")


def test_modules_are_read_while_the_driver_starts_and_while_it_opens_a_device(
    monkeypatch: pytest.MonkeyPatch, api: FakeBindings
) -> None:
    read: list[tuple[str, ...]] = []
    called: list[list[str]] = []

    @contextmanager
    def import_ahead(*modules: str) -> Iterator[None]:
        before = len(api.names())
        yield
        read.append(modules)
        called.append(api.names()[before:])

    monkeypatch.setattr(driver_module, "import_ahead", import_ahead)
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    driver = driver_module.get_driver()
    driver.retain_context(0)
    driver.retain_context(0)
    assert called == [["cuInit"], ["cuDevicePrimaryCtxRetain"]]
    assert all("targets.cuda.device.executable" in modules for modules in read)


def test_an_empty_list_of_visible_devices_is_named(
    monkeypatch: pytest.MonkeyPatch, api: FakeBindings
) -> None:
    api.failures["cuInit"] = Status(100, "CUDA_ERROR_NO_DEVICE")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    assert "CUDA_VISIBLE_DEVICES is ''" in (CudaTarget().unavailable_reason() or "")


def test_no_device_at_all(monkeypatch: pytest.MonkeyPatch, api: FakeBindings) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    api.failures["cuInit"] = Status(100, "CUDA_ERROR_NO_DEVICE")
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    reason = CudaTarget().unavailable_reason() or ""
    assert "CUDA_ERROR_NO_DEVICE (100)" in reason
    assert "nvidia-smi" in reason


def test_minus_one_hides_every_device_and_is_named(
    monkeypatch: pytest.MonkeyPatch, api: FakeBindings
) -> None:
    monkeypatch.setattr(FakeBindings, "do_cuDeviceGetCount", lambda self: (0,))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    reason = CudaTarget().unavailable_reason() or ""
    assert "sees no device" in reason
    assert "CUDA_VISIBLE_DEVICES is '-1': unset it" in reason


@pytest.mark.parametrize("visible", [None, "0"])
@pytest.mark.parametrize(
    ("code", "name", "advice"),
    [
        (34, "CUDA_ERROR_STUB_LIBRARY", "LD_LIBRARY_PATH"),
        (304, "CUDA_ERROR_OPERATING_SYSTEM", "/dev/nvidia"),
        (802, "CUDA_ERROR_SYSTEM_NOT_READY", "nvidia-fabricmanager"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "reboot"),
        (804, "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE", "the driver's own"),
        (805, "CUDA_ERROR_MPS_CONNECTION_FAILED", "nvidia-cuda-mps-control"),
        (999, "CUDA_ERROR_UNKNOWN", "dmesg"),
    ],
)
def test_a_driver_that_does_not_start_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
    api: FakeBindings,
    code: int,
    name: str,
    advice: str,
    visible: str | None,
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:  # which has no part in it
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    api.failures["cuInit"] = Status(code, name)
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    with pytest.raises(TargetUnavailableError, match=re.escape(f"{name} ({code})")) as caught:
        driver_module.get_driver()
    assert advice in (caught.value.remedy or "")
    assert isinstance(caught.value.__cause__, DriverError)
    target = CudaTarget()
    assert name in (target.unavailable_reason() or "")
    assert target.devices() == ()


def test_after_a_fork_the_target_says_to_spawn(
    monkeypatch: pytest.MonkeyPatch, api: FakeBindings
) -> None:
    guard = ForkGuard()
    guard.has_forked = True
    monkeypatch.setattr(driver_module, "fork_guard", guard)
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    with pytest.raises(DriverInitializationError, match="spawn"):
        driver_module.get_driver()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_forked_while_the_driver_starts_is_told_to_spawn(
    monkeypatch: pytest.MonkeyPatch, api: FakeBindings
) -> None:
    """The thread that starts it does not exist in the child, which must not wait for it."""
    guard = ForkGuard()
    starting, forked = threading.Event(), threading.Event()

    def start() -> Driver:
        starting.set()
        assert forked.wait(30)
        return Driver(api)

    monkeypatch.setattr(driver_module, "fork_guard", guard)
    monkeypatch.setattr(driver_module, "_driver", None)
    monkeypatch.setattr(driver_module, "_initialize", start)
    thread = threading.Thread(target=driver_module.get_driver)
    thread.start()
    assert starting.wait(30)
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process of threads forks
        child = os.fork()
    if child == 0:
        signal.alarm(20)  # instead of waiting for ever
        try:
            driver_module.get_driver()
        except DriverInitializationError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    forked.set()
    thread.join()
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert "spawn" in os.read(reader, 4096).decode()
    assert not guard.has_forked


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_driver_that_did_not_start_is_nothing_that_a_fork_breaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    guard = ForkGuard()
    monkeypatch.setattr(driver_module, "fork_guard", guard)
    _hide_bindings(monkeypatch, None)
    with pytest.raises(TargetUnavailableError):
        driver_module.get_driver()
    child = os.fork()
    if child == 0:
        os._exit(3 if guard.has_forked else 0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_module_that_finds_no_room_is_no_fault_of_its_code(
    driver: Driver, api: FakeBindings
) -> None:
    """Compiling would be given up for good, and memory may be there next time."""
    api.failures["cuModuleLoadDataEx"] = Status(2, "CUDA_ERROR_OUT_OF_MEMORY")
    api.error_log = b"ptxas info : something"
    with pytest.raises(OutOfMemoryError, match="load axpy on cuda:0"):
        functions.load(driver, 0, "", "axpy")


def test_a_runtime_error_of_another_kind_is_not_an_old_driver(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr(driver.api, "cuCtxSynchronize", broken, raising=False)
    with pytest.raises(RuntimeError, match="something else"):
        driver.synchronize(0)


def test_an_old_driver_is_told_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch, api: FakeBindings
) -> None:
    monkeypatch.setattr(FakeBindings, "do_cuDriverGetVersion", lambda self: (10020,))
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    reason = CudaTarget().unavailable_reason() or ""
    assert "supports CUDA 10.2" in reason
    assert "PTX 7.0, which needs CUDA 11.0 (driver 445)" in reason


def test_a_usable_driver_has_no_reason(monkeypatch: pytest.MonkeyPatch, api: FakeBindings) -> None:
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    target = CudaTarget()
    assert target.unavailable_reason() is None
    assert [str(device) for device in target.devices()] == ["cuda:0", "cuda:1"]


def test_an_old_device_is_named(monkeypatch: pytest.MonkeyPatch, api: FakeBindings) -> None:
    monkeypatch.setitem(ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR", 5)
    _hide_bindings(monkeypatch, SimpleNamespace(driver=api))
    assert "Old Card is sm_51" in (CudaTarget().unavailable_reason() or "")


def test_a_first_launch_imports_what_the_program_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = driver_module._first_launch()
    for name, modules in driver_module._FIRST_AFTER.items():
        with monkeypatch.context() as patch:
            patch.setattr(driver_module, "imported", lambda each, name=name: each == name or None)
            assert driver_module._first_launch() == (*modules, *driver_module._FIRST_LAUNCH)
    for module in (*usual, *driver_module._FIRST_AFTER):
        assert importlib.util.find_spec(module) is not None
