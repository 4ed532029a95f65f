"""Blocks of the CUDA target's pools that are used again at once, without the driver."""

from __future__ import annotations

from typing import Any

import pytest

from kerneldsl.contract.memory import WHOLE_DEVICE
from kerneldsl.errors import DriverError
from targets.cuda.device import pools
from targets.cuda.device.pools import MAX_BLOCK_BYTES, ReadyBlocks
from targets.cuda.device.streams import LEGACY_DEFAULT_STREAM
from targets.cuda.driver.driver import Driver
from targets.cuda.driver.fork import fork_guard
from tests.support.cuda_memory import Bindings, device, device_of, driver_of, stream


@pytest.fixture
def api() -> Bindings:
    return Bindings()


@pytest.fixture
def driver(api: Bindings, monkeypatch: pytest.MonkeyPatch) -> Driver:
    return driver_of(api, monkeypatch)


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
    assert ready.give_up() == [(each, MAX_BLOCK_BYTES) for each in range(1, count + 2)]
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
            device_of(driver, monkeypatch).copy_to_host(0x100, 0x200, 8)
    with pytest.raises(DriverError, match="fork" if why == "forked" else "lost"):
        pool.acquire(100, None)


def test_the_pool_that_orders_by_streams_gives_out_at_once() -> None:
    """The plain one would not watch the bounds of each allocation any more."""
    assert pools.StreamOrderedPool.gives_out_at_once
    assert not pools.PlainPool.gives_out_at_once
