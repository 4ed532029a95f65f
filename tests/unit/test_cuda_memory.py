"""Pools and host memory of the CUDA target against bindings that only remember what was asked."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kerneldsl.error_history import error_log
from kerneldsl.errors import DeviceLostError, DeviceMemoryError, DriverError, OutOfMemoryError
from kerneldsl.target import Device, DeviceLimits
from kerneldsl.target.memory import WHOLE_DEVICE
from targets.cuda import captures, fill, host_memory, memory, peers, pools
from targets.cuda.driver import Driver
from targets.cuda.fork import fork_guard
from targets.cuda.ready_blocks import MAX_BLOCK_BYTES, ReadyBlocks
from targets.cuda.streams import LEGACY_DEFAULT_STREAM, stream_handle

LIMITS = DeviceLimits(1024, (1024, 1024, 64), (2**31 - 1, 65535, 65535), 49152, 32, 4)


class _Names:
    def __getattr__(self, name: str) -> str:
        return name


class _Status(int):
    @property
    def name(self) -> str:
        return {
            0: "CUDA_SUCCESS",
            2: "CUDA_ERROR_OUT_OF_MEMORY",
            214: "CUDA_ERROR_ECC_UNCORRECTABLE",
            600: "CUDA_ERROR_NOT_READY",
            700: "CUDA_ERROR_ILLEGAL_ADDRESS",
            801: "CUDA_ERROR_NOT_SUPPORTED",
        }.get(int(self), "CUDA_ERROR_UNKNOWN")


class Bindings:
    """Answers success, with consecutive numbers for what is made."""

    CUdevice_attribute = CUmemPool_attribute = _Names()
    CUmemAllocationType = CUmemLocationType = CUmemAccess_flags = _Names()
    CUevent_flags = SimpleNamespace(CU_EVENT_DISABLE_TIMING=2)
    CUmemAttach_flags = SimpleNamespace(CU_MEM_ATTACH_GLOBAL=1)
    CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTALLOC_WRITECOMBINED = 1, 2, 4

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.answers: dict[str, tuple[Any, ...]] = {}
        self.reserved = 0
        self.made = 0
        self.has_pools = self.has_managed = 1

    @staticmethod
    def CUmemPoolProps() -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    @staticmethod
    def CUmemAccessDesc() -> Any:
        return SimpleNamespace(location=SimpleNamespace())

    cuuint64_t = int

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)

        def call(*args: Any) -> tuple[Any, ...]:
            self.calls.append((name, *args))
            if name in self.answers:
                status, *rest = self.answers[name]
                return (_Status(status), *rest)
            return (_Status(0), *self.answer(name, args))

        return call

    def answer(self, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if name == "cuDriverGetVersion":
            return (13000,)
        if name == "cuGetErrorString":
            return (b"as the driver says it",)
        if name == "cuMemGetInfo":
            return (10, 1000)
        if name == "cuDeviceGet":
            return (args[0],)
        if name == "cuDevicePrimaryCtxRetain":
            return (0x1000 + args[0],)
        if name == "cuCtxGetCurrent":
            return (0x1000,)
        if name == "cuDeviceGetAttribute":
            return (self.has_managed if "MANAGED" in args[0] else self.has_pools,)
        if name == "cuMemPoolGetAttribute":
            return (self.reserved,)
        if name == "cuDeviceCanAccessPeer":
            return (1,)
        if name in (
            "cuMemPoolCreate",
            "cuMemAllocFromPoolAsync",
            "cuEventCreate",
            "cuMemAlloc",
            "cuMemHostAlloc",
            "cuMemHostGetDevicePointer",
            "cuMemAllocManaged",
        ):
            self.made += 1
            return (0x10000 * self.made,)
        return ()

    def since(self, *wanted: str) -> list[tuple[Any, ...]]:
        found = [call for call in self.calls if call[0] in wanted]
        self.calls.clear()
        return found


@pytest.fixture
def api() -> Bindings:
    return Bindings()


@pytest.fixture
def driver(api: Bindings, monkeypatch: pytest.MonkeyPatch) -> Driver:
    monkeypatch.setattr(peers, "_enabled", set())
    monkeypatch.setattr(host_memory, "_waiting", type(host_memory._waiting)())
    monkeypatch.setattr(host_memory, "_postponed", type(host_memory._postponed)())
    pools._idle.clear()
    return Driver(api)


def device(index: int = 0) -> Device:
    return Device("cuda", index, "a card", "sm_90", LIMITS)


def stream(handle: int, index: int = 0) -> Any:
    return SimpleNamespace(own_handle=handle, handle=handle, device=device(index))


ORDER = (
    "cuEventRecord",
    "cuStreamWaitEvent",
    "cuMemFreeAsync",
    "cuMemFree",
    "cuCtxRecordEvent",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
)


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


# ------------------------------------------------------- blocks that are used again at once


DRIVER_CALLS = ("cuMemAllocFromPoolAsync", "cuMemFreeAsync", "cuMemFree", "cuMemPoolTrimTo")


def test_a_block_of_the_default_stream_is_used_again_without_the_driver(
    driver: Driver, api: Bindings
) -> None:
    pool = pools.create_pool(driver, device())
    first, second = pool.acquire(100, None)[0], pool.acquire(100, None)[0]
    api.calls.clear()
    pool.release(first, 100, None, ())
    pool.release(second, 100, None, ())
    assert [pool.acquire(100, None) for _ in range(2)] == [(second, False), (first, False)]
    assert not api.since(*DRIVER_CALLS)
    third, _ = pool.acquire(100, None)
    assert third not in (first, second)


@pytest.mark.parametrize(
    ("nbytes", "home", "used_on"),
    [
        (100, stream(7), ()),
        (100, None, (stream(7),)),
        (100, None, (WHOLE_DEVICE,)),
        (MAX_BLOCK_BYTES + 1, None, ()),
    ],
    ids=["another stream's", "used in another stream", "lent", "large"],
)
def test_other_blocks_go_back_to_the_driver(
    driver: Driver, api: Bindings, nbytes: int, home: Any, used_on: tuple[Any, ...]
) -> None:
    pool = pools.create_pool(driver, device())
    pointer, _ = pool.acquire(nbytes, home)
    api.calls.clear()
    pool.release(pointer, nbytes, home, used_on)
    assert api.since(*DRIVER_CALLS) == [
        ("cuMemFreeAsync", pointer, LEGACY_DEFAULT_STREAM if home is None else home.own_handle)
    ]
    assert pool.acquire(nbytes, None)[0] != pointer


@pytest.mark.parametrize("is_idle", [True, False])
def test_trimming_gives_ready_blocks_up_and_waits_for_nothing_else(
    driver: Driver, api: Bindings, is_idle: bool
) -> None:
    """The driver trims only what the host has seen to be free."""
    pool = pools.create_pool(driver, device())
    pointer, _ = pool.acquire(100, None)
    pool.release(pointer, 100, None, ())
    api.calls.clear()
    api.answers["cuStreamQuery"] = (0 if is_idle else 600,)
    pool.trim(0)
    calls = [c[0] for c in api.since(*DRIVER_CALLS, "cuStreamQuery", "cuStreamSynchronize")]
    waited = ["cuStreamSynchronize"] if is_idle else []
    assert calls == ["cuStreamQuery", "cuMemFreeAsync", *waited, "cuMemPoolTrimTo"]
    assert pool.acquire(100, None)[0] != pointer


def test_only_a_few_blocks_are_kept(driver: Driver, api: Bindings) -> None:
    """Many sizes that never come again do not take memory away from other sizes."""
    pool = pools.create_pool(driver, device())
    taken: set[int] = set()
    freed: set[int] = set()
    for size in range(1, 1001):
        pointer, _ = pool.acquire(size, None)
        taken.add(pointer)
        pool.release(pointer, size, None, ())
        freed |= {call[1] for call in api.since("cuMemFreeAsync")}
        assert len(taken - freed) <= 64
    assert freed <= taken
    pool.close()
    assert freed | {call[1] for call in api.since("cuMemFreeAsync")} == taken


def test_blocks_are_kept_up_to_a_number_of_bytes() -> None:
    ready, kept, count = ReadyBlocks(), 0, 0
    while ready.keep(count + 1, MAX_BLOCK_BYTES):
        kept += MAX_BLOCK_BYTES
        count += 1
    assert kept < 1 << 28 <= kept + MAX_BLOCK_BYTES
    assert ready.give_up() == list(range(1, count + 2))
    assert ready.take(MAX_BLOCK_BYTES) == 0
    assert ready.keep(1, MAX_BLOCK_BYTES)


def test_sizes_that_are_kept_in_use_are_forgotten() -> None:
    ready = ReadyBlocks()
    had_room = []
    for size in range(1, 1000):
        had_room.append(ready.keep(size, size))
        if not had_room[-1]:
            ready.give_up()
        elif size % 2:
            assert ready.take(size) == size
    assert not all(had_room)
    assert len(ready._by_size) < 128


def test_a_closed_pool_keeps_no_blocks(driver: Driver, api: Bindings) -> None:
    pool = pools.create_pool(driver, device())
    before, after = pool.acquire(100, None)[0], pool.acquire(100, None)[0]
    pool.release(before, 100, None, ())
    api.calls.clear()
    pool.close()
    calls = api.since("cuMemFreeAsync", "cuMemPoolSetAttribute", "cuMemPoolTrimTo")
    assert [c[:2] for c in calls] == [
        ("cuMemPoolSetAttribute", pool.handle),  # to keep nothing that comes back later
        ("cuMemFreeAsync", before),
        ("cuMemPoolTrimTo", pool.handle),
    ]
    assert not pools._idle[0]
    pool.release(after, 100, None, ())
    assert api.since("cuMemFreeAsync") == [("cuMemFreeAsync", after, LEGACY_DEFAULT_STREAM)]
    assert pools._idle[0] == [pool.handle]


@pytest.mark.parametrize("why", ["forked", "lost"])
def test_no_ready_block_is_given_out_where_the_device_is_gone(
    driver: Driver, api: Bindings, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    pool = pools.create_pool(driver, device())
    pool.release(pool.acquire(100, None)[0], 100, None, ())
    if why == "forked":
        driver.contexts.clear()  # as the guard does in the child
        monkeypatch.setattr(fork_guard, "has_forked", True)
    else:
        api.answers["cuMemcpyDtoH"] = (700,)
        with pytest.raises(DriverError):
            memory.copy_to_host(driver, 0, 0x100, 0x200, 8, stream=LEGACY_DEFAULT_STREAM)
    with pytest.raises(DriverError, match="fork" if why == "forked" else "lost"):
        pool.acquire(100, None)


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
    api.answers[call] = (_Status(700),)
    with pytest.raises(DriverError):  # which whoever releases memory swallows
        pool.release(pointer, 100, None, (stream(8),))
    with pytest.raises(DeviceLostError) as caught:
        pool.acquire(100, None)
    assert caught.value.is_news


def test_memory_of_a_lost_device_is_in_nobodys_way(driver: Driver, api: Bindings) -> None:
    """Page-locked memory that waits for its last use is freed by whoever asks for some next."""
    first = host_memory.PinnedBuffer(driver, device(), 100, is_mapped=True, is_write_combined=False)
    api.answers["cuEventQuery"] = (600,)
    first.close()
    del api.answers["cuEventQuery"]
    lost = driver.failure(_Status(214), "wait", index=0)
    assert lost.is_fatal
    api.calls.clear()
    host_memory.PinnedBuffer(driver, device(1), 50, is_mapped=False, is_write_combined=False)
    assert api.since("cuMemFreeHost") == []


# --------------------------------------------------------------------------- host memory


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


# --------------------------------------------------------------------------- peers and filling


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


@pytest.mark.parametrize("size", [1, 2, 4])
def test_short_patterns_are_one_memset(driver: Driver, api: Bindings, size: int) -> None:
    memory.fill(driver, 0, 0x100, b"\x81" * size, 10, stream=5)
    (call,) = [c for c in api.calls if c[0].startswith(("cuMemset", "cuMemcpy"))]
    assert call == (f"cuMemsetD{8 * size}Async", 0x100, int("81" * size, 16), 10, 5)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """What the kernel that fills was launched with: grid, block, parameters, stream."""
    found: list[tuple[Any, ...]] = []

    def launch(
        driver: Any, function: Any, grid: Any, block: Any, parameters: bytes, **rest: Any
    ) -> None:
        found.append((function, grid, block, struct.unpack("=4Q", parameters), rest))

    monkeypatch.setattr(fill, "_loaded", {})
    monkeypatch.setattr(fill.functions, "load", lambda driver, index, ptx, entry: (index, entry))
    monkeypatch.setattr(fill.functions, "launch", launch)
    return found


@pytest.mark.parametrize("size", [8, 16])
@pytest.mark.parametrize("count", [1, 255, 256, 257, 20001])
def test_long_patterns_are_one_launch(
    driver: Driver, api: Bindings, launches: list[Any], size: int, count: int
) -> None:
    """Every word is written, by the thread whose number is as odd as the word's."""
    pattern = bytes(range(1, size + 1))
    fill.fill_words(driver, device(), 0x1008, pattern, count, stream=5)
    ((function, grid, block, (to, words, even, odd), rest),) = launches
    assert (function, rest) == ((0, "kerneldsl_fill"), {"shared_bytes": 0, "stream": 5})
    assert (to, words) == (0x1008, count * size // 8)
    assert (grid[1:], block[1:], block[0] % 2) == ((1, 1), (1, 1), 0)
    assert 1 <= grid[0] <= 4 * 8  # the described card has four multiprocessors
    threads, memory_words = grid[0] * block[0], np.zeros(words, np.uint64)
    for thread in range(threads):  # as the kernel goes through the memory
        memory_words[thread::threads] = odd if thread % 2 else even
    assert memory_words.tobytes() == pattern * count


def test_the_kernel_that_fills_is_loaded_once_for_each_device(
    driver: Driver, launches: list[Any]
) -> None:
    for index in (0, 1, 0):
        fill.fill_words(driver, device(index), 0x1000, bytes(8), 1, stream=0)
    assert [function for function, *_ in launches] == [(i, "kerneldsl_fill") for i in (0, 1, 0)]
    assert set(fill._loaded) == {0, 1}


def test_fake_streams_are_streams() -> None:
    assert stream_handle(stream(9)) == 9
