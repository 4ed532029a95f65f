"""Pools of the CUDA target, and access between devices, against bindings that only remember."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from kerneldsl.contract.memory import WHOLE_DEVICE
from kerneldsl.errors import ArgumentValueError, DeviceLostError, DriverError, OutOfMemoryError
from targets.cuda.device import host_memory, peers, pools
from targets.cuda.device.streams import LEGACY_DEFAULT_STREAM, stream_handle
from targets.cuda.driver.driver import Driver
from tests.support.cuda_memory import ORDER, Bindings, device, driver_of, stream
from tests.support.driver_bindings import Status


@pytest.fixture
def api() -> Bindings:
    return Bindings()


@pytest.fixture
def driver(api: Bindings, monkeypatch: pytest.MonkeyPatch) -> Driver:
    return driver_of(api, monkeypatch)


# --------------------------------------------------------------------------- pools


def test_memory_comes_from_a_pool_that_keeps_everything(driver: Driver, api: Bindings) -> None:
    pool = pools.create_pool(driver, device())
    (created,) = [c for c in api.calls if c[0] == "cuMemPoolCreate"]
    assert created[1].location.id == 0
    (threshold,) = [c for c in api.calls if c[0] == "cuMemPoolSetAttribute"]
    assert threshold[2:] == ("CU_MEMPOOL_ATTR_RELEASE_THRESHOLD", 2**64 - 1)
    api.reserved = 1 << 25
    pointer, is_new = pool.acquire(100, None)
    assert (pointer % 256, is_new) == (0, True)
    assert pool.acquire(100, stream(7))[1] is False
    assert [c[1:] for c in api.since("cuMemAllocFromPoolAsync")] == [
        (100, pool.handle, LEGACY_DEFAULT_STREAM),
        (100, pool.handle, 7),
    ]


@pytest.mark.parametrize("has_pools", [True, False])
@pytest.mark.parametrize(("nbytes", "asked"), [(1, 4), (4, 4), (7, 8), (678, 680)])
def test_the_word_around_every_element_is_allocated(
    nbytes: int, asked: int, has_pools: bool, driver: Driver, api: Bindings
) -> None:
    """Atomics of 8 and 16 bits read and write it."""
    make = pools.create_pool if has_pools else pools.PlainPool
    make(driver, device()).acquire(nbytes, None)
    name = "cuMemAllocFromPoolAsync" if has_pools else "cuMemAlloc"
    assert [call[1] for call in api.since(name)] == [asked]


def test_a_release_is_ordered_by_events_and_never_waits(driver: Driver, api: Bindings) -> None:
    pool = pools.create_pool(driver, device())
    pointer, _ = pool.acquire(100, stream(7))
    mark = pool.mark(4711, None)
    assert pool.mark(4711, mark) is mark
    api.calls.clear()
    pool.release(pointer, 100, stream(7), (stream(8), None, mark))
    calls = api.since(*ORDER)
    assert [c[0] for c in calls] == [
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuEventRecord",
        "cuStreamWaitEvent",
        "cuStreamWaitEvent",
        "cuMemFreeAsync",
    ]
    assert [c[2] for c in calls if c[0] == "cuEventRecord"] == [8, LEGACY_DEFAULT_STREAM]
    assert {c[1] for c in calls if c[0] == "cuStreamWaitEvent"} == {7}
    assert calls[-1] == ("cuMemFreeAsync", pointer, 7)


def test_memory_lent_to_others_waits_for_the_whole_context(driver: Driver, api: Bindings) -> None:
    pool = pools.create_pool(driver, device())
    pool.release(pool.acquire(100, None)[0], 100, None, (WHOLE_DEVICE,))
    assert [c[0] for c in api.since(*ORDER)] == [
        "cuCtxRecordEvent",
        "cuStreamWaitEvent",
        "cuMemFreeAsync",
    ]
    api.answers["cuCtxRecordEvent"] = (801,)  # an older driver: its own free waits
    pointer, _ = pool.acquire(100, None)
    api.calls.clear()
    pool.release(pointer, 100, None, (WHOLE_DEVICE,))
    assert [c[0] for c in api.since(*ORDER)][-1] == "cuMemFree"


def test_a_full_device(driver: Driver, api: Bindings) -> None:
    pool = pools.create_pool(driver, device())
    api.answers["cuMemAllocFromPoolAsync"] = (2, 0)
    with pytest.raises(OutOfMemoryError, match="allocate 100 bytes on cuda:0"):
        pool.acquire(100, None)


def test_a_closed_pool_is_used_again_once_its_memory_is_back(driver: Driver, api: Bindings) -> None:
    pool = pools.create_pool(driver, device())
    pointer, _ = pool.acquire(100, None)
    pool.close()
    assert not pools._idle[0]
    other = pools.create_pool(driver, device())
    assert other.handle != pool.handle
    api.calls.clear()
    pool.release(pointer, 100, None, ())
    assert [
        c[0]
        for c in api.since(
            "cuMemFreeAsync", "cuMemPoolSetAttribute", "cuMemPoolTrimTo", "cuMemPoolDestroy"
        )
    ] == [
        "cuMemFreeAsync",
        "cuMemPoolSetAttribute",
        "cuMemPoolTrimTo",
    ]
    again = pools.create_pool(driver, device())
    assert again.handle == pool.handle
    assert not api.since("cuMemPoolCreate")


@pytest.mark.parametrize("why", ["no pools", "off"])
def test_without_pools_memory_is_the_drivers_own(
    driver: Driver, api: Bindings, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    if why == "off":
        monkeypatch.setenv("KERNELDSL_POOL", "off")
    else:
        api.has_pools = 0
    pool = pools.create_pool(driver, device())
    pointer, is_new = pool.acquire(100, None)
    assert (is_new, pool.reserved_bytes()) == (True, 100)
    api.calls.clear()
    pool.release(pointer, 100, None, (stream(8),))
    assert [c[0] for c in api.since(*ORDER)] == ["cuMemFree"]
    assert pool.reserved_bytes() == 0


def test_nothing_is_freed_after_a_fork_or_on_a_lost_device(
    driver: Driver, api: Bindings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = pools.create_pool(driver, device())
    pinned = host_memory.PinnedBuffer(
        driver, device(), 100, is_mapped=False, is_write_combined=False
    )
    pointer, _ = pool.acquire(100, None)
    api.calls.clear()
    monkeypatch.setattr(pools.fork_guard, "has_forked", True)
    pool.release(pointer, 100, None, (stream(8),))
    pool.close()
    pinned.close()
    assert api.calls == []


@pytest.mark.parametrize("is_plain", [False, True])
def test_a_loss_that_a_release_meets_is_told_by_the_next_call(
    driver: Driver, api: Bindings, is_plain: bool
) -> None:
    pool = pools.PlainPool(driver, device()) if is_plain else pools.create_pool(driver, device())
    pointer, _ = pool.acquire(100, None)
    call = "cuMemFree" if is_plain else "cuStreamWaitEvent"
    api.answers[call] = (Status(700),)
    with pytest.raises(DriverError):  # which whoever releases memory swallows
        pool.release(pointer, 100, None, (stream(8),))
    with pytest.raises(DeviceLostError) as caught:
        pool.acquire(100, None)
    assert caught.value.is_news


def test_memory_that_is_shared_waits_to_be_used_again(driver: Driver, api: Bindings) -> None:
    pool = pools.ShareablePool(driver, device())
    first, _ = pool.acquire(100, None)
    second, _ = pool.acquire(100, stream(7))
    pool.release(first, 100, None, ())
    pool.release(second, 100, stream(7), ())
    assert [c[1] for c in api.since("cuMemFree")] == [second]
    assert pool.acquire(100, stream(7))[1] is True  # the default stream may still use it
    assert pool.acquire(100, None) == (first, False)
    pool.release(first, 100, None, (stream(8),))
    large = pools.MAX_BLOCK_BYTES + 1
    third, _ = pool.acquire(large, None)
    pool.release(third, large, None, ())
    fourth, _ = pool.acquire(300, None)
    assert pool.reserved_bytes() == 400
    pool.release(fourth, 300, None, ())
    assert pool.reserved_bytes() == 400
    pool.trim(0)
    assert [c[1] for c in api.since("cuMemFree")] == [first, third, fourth]
    assert pool.reserved_bytes() == 100


def test_trimmed_shareable_memory_keeps_so_many_bytes(driver: Driver, api: Bindings) -> None:
    pool = pools.ShareablePool(driver, device())
    used, *others = (pool.acquire(nbytes, None)[0] for nbytes in (100, 200, 200, 300))
    for pointer, nbytes in zip(others, (200, 200, 300), strict=True):
        pool.release(pointer, nbytes, None, ())
    for keep_bytes, left in ((800, 800), (700, 800), (600, 600), (350, 400), (300, 400), (0, 100)):
        pool.trim(keep_bytes)
        assert pool.reserved_bytes() == left
    assert [c[1] for c in api.since("cuMemFree")] == others
    assert pool.acquire(300, None)[1]
    pool.release(used, 100, None, ())
    assert pool.acquire(100, None) == (used, False)


@pytest.mark.parametrize("is_shareable", [False, True])
def test_a_block_that_cannot_be_freed_keeps_no_others(
    driver: Driver, api: Bindings, is_shareable: bool
) -> None:
    make = pools.ShareablePool if is_shareable else pools.create_pool
    pool = make(driver, device())
    blocks = [pool.acquire(100, None)[0] for _ in range(3)]
    for pointer in blocks:
        pool.release(pointer, 100, None, ())
    call = "cuMemFree" if is_shareable else "cuMemFreeAsync"
    api.answers[call] = (Status(1),)
    with pytest.raises(DriverError):
        pool.trim(0)
    assert sorted(c[1] for c in api.since(call)) == sorted(blocks)


def test_a_handle_of_memory(driver: Driver, api: Bindings) -> None:
    handle = (ctypes.c_ubyte * 64)(*range(64))
    given = SimpleNamespace(getPtr=lambda: ctypes.addressof(handle))
    api.answers["cuMemGetAddressRange"] = (0, 0x4000, 512)
    api.answers["cuIpcGetMemHandle"] = (0, given)
    assert peers.export_memory(driver, 0, 0x4010) == (bytes(range(64)), 16)
    assert [c[1] for c in api.since("cuIpcGetMemHandle")] == [0x4000]
    api.CUipcMemHandle = lambda: given
    api.CUipcMem_flags = SimpleNamespace(
        CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS=SimpleNamespace(value=1)
    )
    api.answers["cuIpcOpenMemHandle"] = (0, 0x8000)
    assert peers.open_memory(driver, 0, bytes(range(7, 71))) == 0x8000
    assert bytes(handle) == bytes(range(7, 71))
    for wrong in (b"", bytes(63), bytes(65)):
        with pytest.raises(ArgumentValueError, match=f"has {len(wrong)} bytes.* has 64"):
            peers.open_memory(driver, 0, wrong)
    peers.close_memory(driver, 0, 0x8000)
    assert [c[1] for c in api.since("cuIpcCloseMemHandle")] == [0x8000]


# --------------------------------------------------------------------------- peers


def test_peer_access_opens_pools_that_are_there_and_those_to_come(
    driver: Driver, api: Bindings
) -> None:
    before = pools.create_pool(driver, device(1))
    peers.enable_access(driver, 0, 1)
    peers.enable_access(driver, 0, 1)
    after = pools.create_pool(driver, device(1))
    pools.create_pool(driver, device(0))
    calls = [c for c in api.calls if c[0] in ("cuCtxEnablePeerAccess", "cuMemPoolSetAccess")]
    assert [c[:2] for c in calls] == [
        ("cuCtxEnablePeerAccess", 0x1001),
        ("cuMemPoolSetAccess", before.handle),
        ("cuMemPoolSetAccess", after.handle),
    ]
    assert calls[1][2][0].location.id == 0


def test_copies_between_default_streams_wait_for_both(driver: Driver, api: Bindings) -> None:
    peers.copy(driver, 0, 0x100, 1, 0x200, 64, stream=None)
    names = ("cuEventRecord", "cuStreamWaitEvent", "cuMemcpyPeerAsync")
    calls = api.since(*names)
    assert [c[0] for c in calls] == [*names[:2], "cuMemcpyPeerAsync", *names[:2]]
    assert calls[2] == (
        "cuMemcpyPeerAsync",
        0x200,
        0x1001,
        0x100,
        0x1000,
        64,
        LEGACY_DEFAULT_STREAM,
    )
    peers.copy(driver, 0, 0x100, 1, 0x200, 64, stream=stream(9, 1))
    assert [c[0] for c in api.since(*names)] == ["cuMemcpyPeerAsync"]


def test_fake_streams_are_streams() -> None:
    assert stream_handle(stream(9)) == 9
