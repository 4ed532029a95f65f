"""Page-locked and managed memory of the CUDA target, against bindings that only remember."""

from __future__ import annotations

import pytest

from kerneldsl.contract.error_history import error_log
from kerneldsl.contract.memory import WHOLE_DEVICE
from kerneldsl.errors import DeviceMemoryError, DriverError, OutOfMemoryError
from targets.cuda.device import host_memory, pools
from targets.cuda.device.streams import LEGACY_DEFAULT_STREAM
from targets.cuda.driver import captures
from targets.cuda.driver.driver import Driver
from tests.support.cuda_memory import ORDER, Bindings, device, driver_of
from tests.support.driver_bindings import Status


@pytest.fixture
def api() -> Bindings:
    return Bindings()


@pytest.fixture
def driver(api: Bindings, monkeypatch: pytest.MonkeyPatch) -> Driver:
    return driver_of(api, monkeypatch)


def test_flags_of_page_locked_memory(driver: Driver, api: Bindings) -> None:
    for is_mapped, is_write_combined, flags in (
        (False, False, 1),
        (True, False, 3),
        (False, True, 5),
        (True, True, 7),
    ):
        buffer = host_memory.PinnedBuffer(
            driver, device(), 100, is_mapped=is_mapped, is_write_combined=is_write_combined
        )
        assert api.since("cuMemHostAlloc") == [("cuMemHostAlloc", 100, flags)]
        assert bool(buffer.pointer) is is_mapped
        assert buffer.host_pointer


def test_memory_that_cannot_be_mapped_is_given_back(driver: Driver, api: Bindings) -> None:
    api.answers["cuMemHostGetDevicePointer"] = (801, 0)
    with pytest.raises(DriverError, match="page-locked memory for cuda:0"):
        host_memory.PinnedBuffer(driver, device(), 100, is_mapped=True, is_write_combined=False)
    assert [c[0] for c in api.since("cuMemHostAlloc", "cuMemFreeHost")] == [
        "cuMemHostAlloc",
        "cuMemFreeHost",
    ]


def test_pages_that_exist_are_locked_and_unlocked(driver: Driver, api: Bindings) -> None:
    owner = bytearray(100)
    buffer = host_memory.LockedBuffer(driver, device(), 0x5000, 100, owner)
    assert api.since("cuMemHostRegister") == [("cuMemHostRegister", 0x5000, 100, 3)]
    assert (buffer.host_pointer, buffer.nbytes) == (0x5000, 100)
    assert buffer.pointer
    buffer.close()
    assert api.since("cuMemHostUnregister") == [("cuMemHostUnregister", 0x5000)]


def test_pages_are_locked_again_once_the_device_is_done(driver: Driver, api: Bindings) -> None:
    first = host_memory.LockedBuffer(driver, device(), 0x5000, 100, None)
    api.answers["cuEventQuery"] = (600,)
    first.close()
    assert api.since("cuMemHostUnregister") == []
    is_locked = True

    def register(*args: int) -> tuple[int]:
        return (712,) if is_locked else (0,)

    def unregister(*args: int) -> tuple[int]:
        nonlocal is_locked
        is_locked = False
        return (0,)

    def synchronize() -> tuple[int]:
        api.answers.pop("cuEventQuery", None)
        return (0,)

    api.cuMemHostRegister, api.cuMemHostUnregister = register, unregister
    api.cuCtxSynchronize = synchronize
    host_memory.LockedBuffer(driver, device(), 0x5000, 100, None)
    is_locked = True
    with pytest.raises(DriverError, match=r"lock the pages of 100 bytes.*locked already"):
        host_memory.LockedBuffer(driver, device(), 0x5000, 100, None)


def test_pages_that_cannot_be_mapped_are_unlocked(driver: Driver, api: Bindings) -> None:
    api.answers["cuMemHostGetDevicePointer"] = (801, 0)
    with pytest.raises(DriverError, match="lock the pages of 100 bytes"):
        host_memory.LockedBuffer(driver, device(), 0x5000, 100, None)
    assert api.since("cuMemHostUnregister") == [("cuMemHostUnregister", 0x5000)]


def test_page_locked_memory_is_freed_when_the_device_is_done_with_it(
    driver: Driver, api: Bindings
) -> None:
    first = host_memory.PinnedBuffer(driver, device(), 100, is_mapped=True, is_write_combined=False)
    api.calls.clear()
    api.answers["cuEventQuery"] = (600,)
    first.close()
    assert [c[0] for c in api.since("cuCtxRecordEvent", "cuMemFreeHost", *ORDER)] == [
        "cuCtxRecordEvent"
    ]
    del api.answers["cuEventQuery"]
    host_memory.ManagedBuffer(driver, device(), 50)
    assert api.since("cuMemFreeHost") == [("cuMemFreeHost", first.host_pointer)]


def test_memory_is_freed_where_no_mark_can_be_made(driver: Driver, api: Bindings) -> None:
    buffer = host_memory.PinnedBuffer(
        driver, device(), 100, is_mapped=False, is_write_combined=False
    )
    api.answers["cuEventCreate"] = (2,)
    api.calls.clear()
    buffer.close()
    assert api.since("cuMemFreeHost") == [("cuMemFreeHost", buffer.host_pointer)]
    assert error_log.entries()[-1].was_swallowed
    host_memory.ManagedBuffer(driver, device(), 50)  # is not told of it
    assert not host_memory._postponed
    assert api.since("cuMemFreeHost") == []


def test_nothing_is_marked_while_a_graph_is_recorded(driver: Driver, api: Bindings) -> None:
    """Marking all work of a context invalidates what is being captured there."""
    pool = pools.create_pool(driver, device())
    pinned = host_memory.PinnedBuffer(
        driver, device(), 100, is_mapped=True, is_write_combined=False
    )
    lent, _ = pool.acquire(100, None)
    own, _ = pool.acquire(100, None)
    api.calls.clear()
    captures.begin(0)
    try:
        pinned.close()
        pool.release(lent, 100, None, (WHOLE_DEVICE,))
        pool.release(own, 100, None, ())
        pool.trim(0)
        assert api.since("cuCtxRecordEvent", "cuMemFreeHost", "cuMemFree", "cuMemFreeAsync") == [
            ("cuMemFreeAsync", own, LEGACY_DEFAULT_STREAM)
        ]
    finally:
        captures.end(0)
    pool.acquire(100, None)
    host_memory.ManagedBuffer(driver, device(), 50)
    assert [c[0] for c in api.since("cuCtxRecordEvent", "cuMemFreeHost", "cuMemFreeAsync")] == [
        "cuCtxRecordEvent",
        "cuMemFreeAsync",
        "cuCtxRecordEvent",
        "cuMemFreeHost",
    ]


def test_a_device_without_managed_memory(driver: Driver, api: Bindings) -> None:
    api.has_managed = 0
    with pytest.raises(DeviceMemoryError, match=r"cuda:0 has no managed memory.*kd\.empty"):
        host_memory.ManagedBuffer(driver, device(), 50)


def test_there_is_no_page_locked_memory_left(driver: Driver, api: Bindings) -> None:
    api.answers["cuMemHostAlloc"] = (2, 0)
    with pytest.raises(OutOfMemoryError, match="page-locked memory for cuda:0"):
        host_memory.PinnedBuffer(driver, device(), 100, is_mapped=True, is_write_combined=True)


def test_memory_of_a_lost_device_is_in_nobodys_way(driver: Driver, api: Bindings) -> None:
    """Page-locked memory that waits for its last use is freed by whoever asks for some next."""
    first = host_memory.PinnedBuffer(driver, device(), 100, is_mapped=True, is_write_combined=False)
    api.answers["cuEventQuery"] = (600,)
    first.close()
    del api.answers["cuEventQuery"]
    lost = driver.failure(Status(214), "wait", index=0)
    assert lost.is_fatal
    api.calls.clear()
    host_memory.PinnedBuffer(driver, device(1), 50, is_mapped=False, is_write_combined=False)
    assert api.since("cuMemFreeHost") == []
