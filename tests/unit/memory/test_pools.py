"""Pools of memory: what they promise, on targets without a GPU."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kerneldsl as kd
from kerneldsl.contract.memory import WHOLE_DEVICE
from kerneldsl.memory.device_memory import DeviceMemory
from kerneldsl.memory.pools import allocate, device_memory
from kerneldsl.placement.devices import device_of
from targets import null
from targets.cpu.runtime.host_pool import HostPool, block_bytes
from targets.null.devices import H100, SMALL_OLD_CARD
from targets.null.memory import NullPool

MIB = 2**20
#: No other test has it: functions of the library keep constants on the devices that they ran on.
CARD = replace(SMALL_OLD_CARD, name="small card of pools")
CAPACITY = CARD.extra["total_memory_bytes"]


@pytest.fixture
def small_card() -> Iterator[Any]:
    with null.described_as(CARD) as target:
        kd.MemoryPool.default("null").trim()  # what an earlier test left of the same card
        yield target
        gc.collect()


def releases(pool: kd.MemoryPool) -> list[Any]:
    assert isinstance(pool._backend, NullPool)
    return pool._backend.releases


# --------------------------------------------------------------------------- choosing a pool


def test_an_active_pool_serves_its_own_device_alone() -> None:
    with null.described_as(H100, H100), kd.MemoryPool("null:1") as pool:
        elsewhere = kd.empty(10, device="null:0")
        here = kd.empty(10, device="null:1")
    assert pool.stats().in_use_bytes == here.nbytes
    assert (elsewhere.device.index, here.device.index) == (0, 1)


def test_the_innermost_pool_serves_and_others_serve_again_after_it() -> None:
    outer, inner = kd.MemoryPool("null"), kd.MemoryPool("null")
    with outer:
        with inner, inner:
            one = kd.empty(1, np.int8, device="null")
        two = kd.empty(2, np.int8, device="null")
    three = kd.empty(4, np.int8, device="null")
    assert (inner.stats().in_use_bytes, outer.stats().in_use_bytes) == (1, 2)
    assert (one.size, two.size, three.size) == (1, 2, 4)


def test_a_pool_is_active_in_its_own_thread_alone() -> None:
    pool = kd.MemoryPool("null")
    with pool:
        arrays: list[Any] = []
        thread = threading.Thread(target=lambda: arrays.append(kd.empty(9, device="null")))
        thread.start()
        thread.join()
    assert arrays[0].size == 9
    assert pool.stats().allocation_count == 0


@pytest.mark.parametrize("limit", ["1", 2.5, True])
def test_a_limit_is_an_int(limit: Any) -> None:
    with pytest.raises(kd.ArgumentTypeError, match="number of bytes as an int"):
        kd.MemoryPool("cpu", limit=limit)


def test_a_limit_below_what_is_in_use() -> None:
    pool = kd.MemoryPool("null")
    with pool:
        array = kd.empty(100, np.int8, device="null")
    with pytest.raises(
        kd.ArgumentValueError, match=r"limit of 99 bytes is less than the 100 bytes"
    ):
        pool.limit = 99
    pool.limit = array.nbytes


def test_a_limit_counts_arrays_that_only_the_collector_frees() -> None:
    pool = kd.MemoryPool("null", limit=100)
    gc.disable()
    try:
        with pool:
            cycle: list[Any] = [kd.empty(60, np.int8, device="null")]
            cycle.append(cycle)
            del cycle
            assert kd.empty(60, np.int8, device="null").nbytes == 60
    finally:
        gc.enable()


@pytest.mark.parametrize("shape", [(2**62,), (2**40, 2**40), (2**31, 2**31, 2)])
def test_absurd_sizes(shape: tuple[int, ...]) -> None:
    for device in ("cpu", "null"):
        with pytest.raises((kd.ArgumentValueError, kd.OutOfMemoryError)):
            kd.empty(shape, np.float64, device=device)
    with pytest.raises(kd.ArgumentValueError, match="negative"):
        kd.empty(-1, device="null")
    with pytest.raises(kd.ArgumentValueError, match="at least 0 and fewer than"):
        kd.MemoryPool("null").allocate(-8)


def test_the_default_pool_cannot_be_closed() -> None:
    with pytest.raises(kd.ArgumentValueError, match=r"trim\(\)"):
        kd.MemoryPool.default("null").close()


@pytest.mark.parametrize("keep", [-1, 1.5, "0", True])
def test_trim_keeps_a_number_of_bytes(keep: Any) -> None:
    with pytest.raises(kd.ArgumentValueError, match="int >= 0"):
        kd.MemoryPool("cpu").trim(keep)


def test_a_closed_pool_leaves_its_arrays_alone(small_card: Any) -> None:
    pool = kd.MemoryPool("null")
    with pool:
        array = kd.full(1000, 7, np.int16, device="null")
    pool.close()
    pool.close()
    assert array.copy_to_host().tolist() == [7] * 1000
    with pytest.raises(kd.ClosedResourceError), pool:
        pass
    del array, pool
    gc.collect()
    assert small_card.memory_of(small_card.devices()[0]).free_bytes() == CAPACITY


# --------------------------------------------------------------------------- running out


def test_what_other_pools_keep_is_given_back_when_there_is_no_room(small_card: Any) -> None:
    one, two = kd.MemoryPool("null"), kd.MemoryPool("null")
    with one:
        kd.empty(CAPACITY - 100, np.int8, device="null")
    assert one.stats().reserved_bytes == CAPACITY - 100
    with two:
        assert kd.empty(CAPACITY, np.int8, device="null").nbytes == CAPACITY
    assert one.stats().reserved_bytes == 0


def test_out_of_memory_says_how_much_and_by_whom(small_card: Any) -> None:
    pool = kd.MemoryPool("null")
    with pool:
        kept = kd.empty(CAPACITY // 2, np.int8, device="null")
    outside = small_card.memory_of(small_card.devices()[0]).allocate(MIB)
    with pytest.raises(kd.OutOfMemoryError) as caught:
        kd.empty(CAPACITY // 2, np.int8, device="null")
    text = str(caught.value)
    assert f"could not allocate {CAPACITY // 2} bytes (1 GiB) on null:0" in text
    assert "1023 MiB of 2 GiB are free" in text
    assert f"the pool {pool.name!r} has reserved 1 GiB, of which 1 GiB are in use" in text
    assert "the pool 'default' has reserved 0 bytes" in text
    assert "1 MiB are held by other processes" in text
    assert caught.value.value == CAPACITY // 2
    assert isinstance(caught.value, MemoryError)
    assert isinstance(caught.value.__cause__, kd.OutOfMemoryError)
    small_card.memory_of(small_card.devices()[0]).free(outside)
    assert kept.nbytes


def test_a_failure_that_is_not_for_want_of_room_is_not_tried_again(small_card: Any) -> None:
    small_card.fail_next("allocate", kd.DeviceError("gone", code=46, name="X"))
    before = kd.memory_stats("null")
    with pytest.raises(kd.DeviceError, match="gone"):
        kd.empty(10, device="null")
    after = kd.memory_stats("null")
    assert after.allocation_count == before.allocation_count
    assert after.in_use_bytes == before.in_use_bytes
    assert kd.empty(10, device="null").size == 10


def test_one_failure_for_want_of_room_is_made_good(small_card: Any) -> None:
    error = kd.OutOfMemoryError("full", code=2, name="CUDA_ERROR_OUT_OF_MEMORY")
    small_card.fail_next("allocate", error)
    assert kd.empty(10, device="null").size == 10


def test_the_operating_system_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any) -> Any:
        raise MemoryError

    pool = kd.MemoryPool("cpu")
    monkeypatch.setattr("targets.cpu.runtime.host_pool.np.empty", refuse)
    with pytest.raises(kd.OutOfMemoryError, match="could not allocate 12345 bytes"):
        pool.allocate(12345)


# --------------------------------------------------------------------------- streams


def test_a_release_waits_for_every_stream_that_used_the_memory() -> None:
    place = device_of("null")
    pool = kd.MemoryPool("null")
    home, other = (kd.Stream("null") for _ in range(2))
    buffer = pool.allocate(100, home)
    buffer.note_use(home._stream)
    buffer.note_use(other._stream)
    buffer.note_use(other._stream)
    buffer.note_use(None)
    buffer.note_use(4711)
    buffer.note_use(4711)
    buffer.close()
    (release,) = releases(pool)
    assert release.stream is home._stream
    assert release.used_on == (other._stream, None, ("mark", 4711))
    buffer = allocate(place, 10)
    buffer.note_use(None)
    assert buffer._uses is None


def test_a_stream_lives_as_long_as_the_memory_made_in_it() -> None:
    pool = kd.MemoryPool("null")
    stream = kd.Stream("null")
    inner = stream._stream
    with pool:
        array = kd.empty(10, device="null", stream=stream)
    stream.close()
    del stream
    array.close()
    assert releases(pool)[-1].stream is inner


def test_arrays_are_made_in_the_current_stream() -> None:
    pool, stream = kd.MemoryPool("null"), kd.Stream("null")
    with pool, stream:
        one = kd.zeros(10, device="null")
        two = kd.zeros(10, device="null", stream=kd.default_stream("null"))
    one.close()
    two.close()
    assert [r.stream for r in releases(pool)] == [stream._stream, None]


def test_memory_in_another_librarys_stream_belongs_to_the_default_stream() -> None:
    pool = kd.MemoryPool("null")
    buffer = pool.allocate(10, 4711)
    buffer.close()
    (release,) = releases(pool)
    assert (release.stream, release.used_on) == (None, (("mark", 4711),))


def test_each_threads_own_default_stream_counts() -> None:
    """They have one handle, 2, and are as many streams as there are threads."""
    pool = kd.MemoryPool("null")
    buffer = pool.allocate(10)
    thread = threading.Thread(target=buffer.note_use, args=(2,))
    thread.start()
    thread.join()
    buffer.note_use(2)
    buffer.note_use(4711)
    buffer.note_use(4711)
    buffer.close()
    (release,) = releases(pool)
    assert release.used_on == (("mark", 2), ("mark", 2), ("mark", 4711))


def test_another_librarys_stream_is_known_by_its_handle() -> None:
    """Not by the address of the object, which may be that of another stream later."""

    class Theirs:
        def __init__(self, ptr: int) -> None:
            self.ptr = ptr

    pool = kd.MemoryPool("null")
    with pool:
        array = kd.zeros(10, device="null")
    for ptr in (0x5000, 0x6000, 0x5000):
        array.copy_from_host(np.zeros(10), Theirs(ptr))
    array.close()
    (release,) = releases(pool)
    assert release.used_on == (("mark", 0x5000), ("mark", 0x6000))


def test_a_stream_of_another_device_is_refused() -> None:
    with null.described_as(H100, H100):
        stream = kd.Stream("null:1")
        with pytest.raises(kd.DeviceMismatchError, match="null:1"):
            kd.empty(10, device="null:0", stream=stream)


def test_memory_that_was_lent_waits_for_the_whole_device() -> None:
    pool = kd.MemoryPool("null")
    with pool:
        array = kd.empty(10, device="null")
    array.mark_foreign_use()
    del array
    gc.collect()
    assert releases(pool)[-1].used_on == (WHOLE_DEVICE,)


# --------------------------------------------------------------------------- finalizers


def test_a_finalizer_under_the_lock_neither_waits_nor_reenters() -> None:
    pool = kd.MemoryPool("null")
    memory = pool._memory
    kept = [pool.allocate(8) for _ in range(3)]
    backend = pool._backend
    assert isinstance(backend, NullPool)
    inside: list[int] = []

    def acquire(nbytes: int, stream: Any) -> tuple[int, bool]:
        kept.pop()  # as when the collector runs here
        inside.append(len(backend.releases))
        return type(backend).acquire(backend, nbytes, stream)

    backend.acquire = acquire  # type: ignore[method-assign]
    buffer = pool.allocate(8)
    assert inside == [0]
    assert len(backend.releases) == 1
    assert not memory.freed
    del backend.acquire, buffer


def test_a_finalizer_does_not_wait_for_another_thread() -> None:
    pool = kd.MemoryPool("null")
    memory = pool._memory
    buffers = [pool.allocate(8) for _ in range(3)]
    holds, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        with memory.lock:
            holds.set()
            let_go.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    holds.wait(30)
    buffers.clear()  # returns at once
    assert len(memory.freed) == 3
    let_go.set()
    thread.join()
    assert pool.stats().in_use_bytes == 0


def test_an_allocation_inside_a_finalizer() -> None:
    pool = kd.MemoryPool("null")
    made: list[Any] = []

    class Rude:
        def __del__(self) -> None:
            made.append(pool.allocate(16))

    backend = pool._backend
    rude = [Rude()]

    def acquire(nbytes: int, stream: Any) -> tuple[int, bool]:
        rude.clear()
        return type(backend).acquire(backend, nbytes, stream)  # type: ignore[arg-type]

    backend.acquire = acquire  # type: ignore[method-assign]
    made.append(pool.allocate(8))
    assert pool.stats().in_use_bytes == 24
    del backend.acquire


def test_threads_count_exactly() -> None:
    pool = kd.MemoryPool("cpu")
    wrong: list[str] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        kept: list[tuple[Any, int]] = []
        for _ in range(400):
            nbytes = int(rng.integers(1, 9000))
            buffer = pool.allocate(nbytes)
            ctypes.memset(buffer.pointer, seed, nbytes)
            kept.append((buffer, nbytes))
            if len(kept) > 6:
                buffer, nbytes = kept.pop(int(rng.integers(len(kept))))
                if ctypes.string_at(buffer.pointer, nbytes) != bytes([seed]) * nbytes:
                    wrong.append("memory was given out twice")

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    stats = pool.stats()
    assert not wrong
    assert (stats.allocation_count, stats.free_count) == (3200, 3200)
    assert stats.in_use_bytes == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_goes_on_with_pools_of_the_cpu() -> None:
    program = """
import os, threading
import kerneldsl as kd
pool = kd.MemoryPool("cpu")
kept = pool.allocate(1000)
holds, done = threading.Event(), threading.Event()
def hold():
    with pool._memory.lock:
        holds.set(); done.wait(30)
threading.Thread(target=hold).start()
holds.wait(30)
child = os.fork()
if child == 0:
    other = pool.allocate(2000)
    os._exit(0 if pool.stats().in_use_bytes == 3000 else 1)
status = os.waitpid(child, 0)[1]
done.set()
print("child", os.waitstatus_to_exitcode(status))
"""
    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.stdout == "child 0\n", run.stderr


# --------------------------------------------------------------------------- statistics


def test_device_statistics_are_the_sum_over_pools_also_of_those_that_are_gone(
    small_card: Any,
) -> None:
    before = kd.memory_stats("null")
    pool = kd.MemoryPool("null")
    with pool:
        array = kd.empty(1000, np.int8, device="null")
    rest = kd.empty(24, np.int8, device="null")
    now = kd.memory_stats("null")
    assert now.in_use_bytes - before.in_use_bytes == 1024
    assert now.allocation_count - before.allocation_count == 2
    assert {p.name for p in now.pools} >= {"default", pool.name}
    assert now.total_bytes == CAPACITY
    assert now.free_bytes == CAPACITY - now.reserved_bytes
    assert now.elsewhere_bytes == 0
    del array, pool
    gc.collect()
    after = kd.memory_stats("null")
    assert after.allocation_count == now.allocation_count
    assert after.free_count - before.free_count == 1
    assert after.peak_bytes >= 1024
    assert rest.size == 24


def test_pools_that_are_gone_leave_nothing_but_their_sums() -> None:
    before = kd.memory_stats("null")
    memory = kd.MemoryPool.default("null")._memory
    for size in range(1, 101):
        kd.MemoryPool("null").allocate(size)
    after = kd.memory_stats("null")
    assert after.allocation_count - before.allocation_count == 100
    assert after.free_count - before.free_count == 100
    assert not memory.going


def test_statistics_as_values() -> None:
    pool = kd.MemoryPool("null", limit=4096)
    assert pool.stats().hit_ratio == 1.0
    for _ in range(4):
        pool.allocate(1024)
    stats = pool.stats()
    assert stats.to_dict() == {
        "device": "null:0",
        "name": pool.name,
        "in_use_bytes": 0,
        "reserved_bytes": 1024,
        "peak_bytes": 1024,
        "largest_bytes": 1024,
        "limit_bytes": 4096,
        "allocation_count": 4,
        "free_count": 4,
        "hit_count": 3,
        "hit_ratio": 0.75,
    }
    assert "4 allocations, 75 % hits, " in str(stats)
    assert "<td>75 %</td>" in stats._repr_html_()
    assert f">{pool.name}</td>" in kd.memory_stats("null")._repr_html_()
    whole = kd.memory_stats("null").to_dict()
    assert whole["device"] == "null:0"
    assert {p["name"] for p in whole["pools"]} >= {"default", pool.name}
    with pytest.raises(AttributeError):
        stats.in_use_bytes = 3  # type: ignore[misc]


def test_blocks_of_host_memory() -> None:
    for nbytes in (1, 255, 256, 257, 4097, 10**6, 10**9 + 1):
        assert nbytes <= block_bytes(nbytes) <= max(256, nbytes * 1.125 + 256)
        assert block_bytes(block_bytes(nbytes)) == block_bytes(nbytes)
    pool = HostPool(device_of("cpu"))
    pointers = [pool.acquire(1 << 27, None)[0] for _ in range(4)]
    for pointer in pointers:
        pool.release(pointer, 1 << 27, None, ())
    assert pool.reserved_bytes() == 1 << 28  # the rest went back to the system
    assert pool.acquire(1 << 27, None) == (pointers[1], False)
    pool.trim(0)
    assert pool.reserved_bytes() == 1 << 27


def test_device_memory_is_made_once() -> None:
    place = device_of("null")
    found: list[DeviceMemory] = []
    threads = [
        threading.Thread(target=lambda: found.append(device_memory(place))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1
