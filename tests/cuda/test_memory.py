"""Pools, copies, page-locked and managed memory on a real device."""

from __future__ import annotations

import gc
import threading
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.memory.pools import allocate
from kerneldsl.placement.devices import device_of
from tests.support.arrays import assert_same_bits, random_array

MIB = 2**20


@kd.kernel
def spin_then_fill(x, value, rounds):
    """Write `value` after a while, so that a premature reuse of the memory is seen."""
    i = kd.grid(1)
    if i < x.size:
        y = np.float32(i)
        for _ in range(rounds):
            y = y * np.float32(0.5) + np.float32(1.0)
        x[i] = value if y > np.float32(-1.0) else np.float32(0.0)


@kd.kernel
def copy_elements(x, out):
    i = kd.grid(1)
    if i < out.size:
        out[i] = x[i]


@kd.kernel
def add_one(x):
    i = kd.grid(1)
    if i < x.size:
        x[i] = x[i] + 1


def free_bytes() -> int:
    kd.synchronize("cuda:0")
    found = kd.memory_stats("cuda:0").free_bytes
    assert found is not None
    return found


def test_freed_memory_comes_from_the_pool_again() -> None:
    with kd.MemoryPool() as pool:
        for _ in range(5):
            kd.empty(4 * MIB, np.uint8)
        stats = pool.stats()
    assert (stats.allocation_count, stats.free_count, stats.in_use_bytes) == (5, 5, 0)
    assert stats.hit_count == 4
    assert stats.reserved_bytes >= 4 * MIB
    assert stats.peak_bytes == stats.largest_bytes == 4 * MIB


@pytest.mark.alone
def test_trim_gives_memory_back_to_the_device() -> None:
    pool = kd.MemoryPool()
    with pool:
        array = kd.empty(512 * MIB, np.uint8)
    held = free_bytes()
    array.close()
    kd.synchronize()
    assert pool.stats().reserved_bytes >= 512 * MIB
    pool.trim()
    assert pool.stats().reserved_bytes == 0
    assert free_bytes() >= held + 512 * MIB


@pytest.mark.alone
def test_a_closed_pool_gives_everything_back_once_its_arrays_are_gone() -> None:
    before = free_bytes()
    pool = kd.MemoryPool()
    with pool:
        array = kd.full(256 * MIB, 7, np.uint8)
    pool.close()
    with pytest.raises(kd.ClosedResourceError), pool:
        pass
    assert array[::MIB].copy_to_host().tolist() == [7] * 256
    del array, pool
    gc.collect()
    assert free_bytes() == before


def test_a_limit_holds() -> None:
    pool = kd.MemoryPool(limit=8 * MIB)
    with pool:
        kept = kd.empty(5 * MIB, np.uint8)
        with pytest.raises(kd.OutOfMemoryError, match=f"{5 * MIB} of at most {8 * MIB} bytes"):
            kd.empty(4 * MIB, np.uint8)
        kept.close()
        kd.empty(8 * MIB, np.uint8)


@pytest.mark.alone
def test_memory_in_reference_cycles_is_collected_when_there_is_no_room() -> None:
    total = kd.memory_stats("cuda:0").total_bytes
    assert total is not None
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):  # the second one finds no room before the first is collected
            cycle: list[Any] = [kd.empty(int(total * 0.6), np.uint8)]
            cycle.append(cycle)
            del cycle
    finally:
        gc.enable()
        gc.collect()
        kd.MemoryPool.default("cuda:0").trim()


def test_out_of_memory_says_who_has_it(torch: Any) -> None:
    cache = torch.empty(2**30, dtype=torch.uint8, device="cuda")
    del cache
    with pytest.raises(kd.OutOfMemoryError) as caught:
        kd.empty(2**44, np.uint8)
    text = str(caught.value)
    for wanted in (
        "17592186044416 bytes",
        "are free",
        "pool 'default'",
        "torch has reserved",
        "empty_cache",
        "other processes",
    ):
        assert wanted in text
    torch.cuda.empty_cache()


@pytest.mark.parametrize("is_blocking", [True, False])
@pytest.mark.parametrize("home_is_default", [True, False])
def test_memory_is_not_reused_while_another_stream_works_with_it(
    is_blocking: bool, home_is_default: bool
) -> None:
    """A long kernel in one stream still writes its array after the last reference has gone; the
    next array of the size must not see that."""
    count = 1 << 16
    one, two = kd.Stream(blocking=is_blocking), kd.Stream(blocking=is_blocking)
    home = None if home_is_default else two
    spin_then_fill.forall(count, stream=one)(kd.empty(count, np.float32), np.float32(1), 1)
    kd.synchronize()
    with kd.MemoryPool():
        for round_ in range(20):
            first = kd.empty(count, np.float32, stream=home)
            kd.synchronize()
            spin_then_fill.forall(count, stream=one)(first, np.float32(-7.0), 20000)
            del first
            second = kd.empty(count, np.float32, stream=home)
            second.fill(round_, stream=home)
            kd.synchronize()
            assert (second.copy_to_host() == round_).all()
            del second
    one.close()
    two.close()


def test_memory_outlives_the_stream_it_was_made_in() -> None:
    stream = kd.Stream()
    array = kd.full(1000, 3.0, stream=stream)
    stream.close()
    del stream
    gc.collect()
    kd.synchronize()
    assert array.copy_to_host().tolist() == [3.0] * 1000
    del array
    assert kd.full(1000, 4.0).copy_to_host().tolist() == [4.0] * 1000


def test_memory_used_in_another_librarys_stream(torch: Any) -> None:
    """torch's stream is gone, as far as we know, when the memory is freed."""
    count = 1 << 16
    side = torch.cuda.Stream()
    with kd.MemoryPool():
        for round_ in range(10):
            first = kd.empty(count, np.float32)
            kd.synchronize()
            spin_then_fill.forall(count, stream=side.cuda_stream)(first, np.float32(-7.0), 20000)
            del first
            second = kd.full(count, round_, np.float32)
            kd.synchronize()
            assert (second.copy_to_host() == round_).all()
            del second


def test_memory_lent_to_torch_waits_for_all_of_its_streams(torch: Any) -> None:
    count = 1 << 22
    side = torch.cuda.Stream()
    with kd.MemoryPool():
        for round_ in range(10):
            ours = kd.zeros(count, np.float32)
            kd.synchronize()
            theirs = torch.from_dlpack(ours)
            with torch.cuda.stream(side):
                for _ in range(50):
                    theirs.add_(1.0)
            del ours, theirs
            other = kd.full(count, round_, np.float32)
            kd.synchronize()
            assert (other.copy_to_host() == round_).all()
            del other


def test_a_closed_array_that_was_lent_stays_theirs(torch: Any) -> None:
    ours = kd.full(1000, 5, np.int32)
    theirs = torch.from_dlpack(ours)
    ours.close()
    kd.full(1000, 9, np.int32)
    assert (theirs == 5).all().item()
    with pytest.raises(kd.ClosedResourceError):
        add_one.forall(1000)(ours)


def test_memory_that_comes_back_during_a_recording_does_not_spoil_it(torch: Any) -> None:
    stream, out = kd.Stream(), kd.zeros(100, np.float32)
    pinned = kd.pinned_empty(1000, np.uint8)
    lent = kd.zeros(1000, np.float32)
    theirs = torch.from_dlpack(lent)
    with stream.capture() as graph:
        add_one.forall(100)(out)
        del pinned, lent, theirs
        gc.collect()
        kd.empty(1000, np.float32, stream=kd.default_stream())
    graph.launch()
    stream.synchronize()
    assert out.copy_to_host().tolist() == [1.0] * 100


# --------------------------------------------------------------------------- copies


def test_asynchronous_copies_through_page_locked_memory(rng: np.random.Generator) -> None:
    stream = kd.Stream()
    source = kd.pinned_copy(random_array(rng, (1000, 501), "float32"))
    device = kd.full(source.shape, np.nan, np.float32)
    kd.synchronize()
    device.copy_from_host(source, stream, blocking=False)
    add_one.forall(device.size, stream=stream)(device.reshape(-1))
    back = device.copy_to_host(stream=stream, blocking=False)
    stream.synchronize()
    assert_same_bits(back, source + np.float32(1), "round trip")


def test_a_source_that_is_dropped_is_read_all_the_same(rng: np.random.Generator) -> None:
    stream = kd.Stream(blocking=False)
    expected = random_array(rng, (16 * MIB,), "uint8")
    device = kd.zeros(expected.shape, np.uint8)
    busy = kd.empty(1 << 16, np.float32)
    kd.synchronize()
    for _ in range(5):
        spin_then_fill.forall(busy.size, stream=stream)(busy, np.float32(0), 20000)
        device.copy_from_host(kd.pinned_copy(expected), stream, blocking=False)
        gc.collect()
        overwritten = kd.pinned_empty(expected.shape, np.uint8)
        overwritten[...] = 0xAA
        stream.synchronize()
        assert_same_bits(device.copy_to_host(), expected, "dropped source")


@pytest.mark.measures
def test_a_copy_that_does_not_wait_returns_before_it_is_done() -> None:
    stream = kd.Stream()
    source = kd.pinned_empty(512 * MIB, np.uint8)
    source[...] = 1
    device = kd.zeros(512 * MIB, np.uint8)
    kd.synchronize()
    device.copy_from_host(source, stream, blocking=False)  # imports and warms up
    stream.synchronize()
    started = time.perf_counter()
    device.copy_from_host(source, stream, blocking=False)
    called = time.perf_counter() - started
    was_done = stream.query()
    stream.synchronize()
    whole = time.perf_counter() - started
    print(f"the call took {called * 1e6:.0f} µs of {whole * 1e3:.2f} ms")
    assert not was_done
    assert called < whole / 5


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_copies_between_strided_arrays(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    steps = [data.draw(st.sampled_from([1, 2, -1, -3])) for _ in shape]
    others = [data.draw(st.sampled_from([1, 3, -1])) for _ in shape]
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))

    def views(step: list[int]) -> tuple[np.ndarray, tuple[slice, ...]]:
        whole = rng.integers(0, 255, [n * abs(s) for n, s in zip(shape, step, strict=True)])
        return whole.astype(np.int16), tuple(slice(None, None, s) for s in step)

    (left, to), (right, come_from) = views(steps), views(others)
    destination, source = kd.to_device(left), kd.to_device(right)
    kd.copy(destination[to], source[come_from])
    left[to] = right[come_from]
    assert_same_bits(destination.copy_to_host(), left, "strided copy")


def test_overlapping_copies() -> None:
    device = kd.to_device(np.arange(1 << 20))
    kd.copy(device[1:], device[:-1])
    expected = np.arange(1 << 20)
    expected[1:] = expected[:-1].copy()
    assert_same_bits(device.copy_to_host(), expected, "overlap")


@pytest.mark.parametrize("count", [1, 3, 255, 257, 4097, (1 << 20) + 1])
@pytest.mark.parametrize(
    "value",
    [
        np.int8(-3),
        np.int16(-300),
        np.float32(-0.0),
        np.float64(np.pi),
        np.complex128(1 - 2j),
        np.int64(0),
        np.complex64(3j),
    ],
)
def test_filling(count: int, value: Any) -> None:
    guard = kd.full(count + 2, 7, value.dtype)
    guard[1:-1].fill(value)
    expected = np.full(count + 2, 7, value.dtype)
    expected[1:-1] = value
    assert_same_bits(guard.copy_to_host(), expected, "fill")


# --------------------------------------------------------------------------- host memory


def test_kernels_work_on_mapped_memory(rng: np.random.Generator) -> None:
    host = kd.pinned_copy(random_array(rng, (1001,), "float32"), mapped=True)
    expected = host[1:] + np.float32(1)
    add_one.forall(1000)(kd.mapped_view(host[1:]))
    kd.synchronize()
    assert_same_bits(host[1:], expected, "mapped")


def test_write_combined_memory_is_copied(rng: np.random.Generator) -> None:
    array = random_array(rng, (3, 777), "complex64")
    host = kd.pinned_copy(array, write_combined=True)
    assert_same_bits(kd.to_device(host).copy_to_host(), array, "write-combined")


def test_host_and_device_share_managed_memory() -> None:
    array = kd.managed_empty(1000, np.int32)
    assert array.is_managed
    array.host_view()[...] = np.arange(1000)
    add_one.forall(1000)(array)
    assert array.host_view().tolist() == list(range(1, 1001))
    assert array.copy_to_host().tolist() == list(range(1, 1001))
    view = array.host_view()
    array.close()
    assert view[0] == 1  # the view keeps the memory


def test_page_locked_memory_waits_for_the_kernels_that_use_it() -> None:
    count = 1 << 14
    out = kd.zeros(count, np.float32)
    busy = kd.empty(1 << 16, np.float32)
    host = kd.pinned_empty(count, np.float32, mapped=True)
    host[...] = 5
    started = time.perf_counter()
    spin_then_fill.forall(busy.size)(busy, np.float32(0), 2_000_000)
    copy_elements.forall(count)(kd.mapped_view(host), out)
    launched = time.perf_counter() - started
    del host
    gc.collect()
    dropped = time.perf_counter() - started
    other = kd.pinned_empty(count, np.float32, mapped=True)
    other[...] = 9
    kd.synchronize()
    print(
        f"dropped after {(dropped - launched) * 1e6:.0f} µs, done after "
        f"{(time.perf_counter() - started) * 1e3:.1f} ms"
    )
    assert (out.copy_to_host() == 5).all()


def test_page_locked_memory_waits_for_copies_that_read_it() -> None:
    """Such a copy keeps nothing alive: the memory waits by itself."""
    stream, count = kd.Stream(blocking=False), MIB
    out = kd.empty(count, np.uint8, stream=stream)
    busy = kd.empty(1 << 16, np.float32, stream=stream)
    host = kd.pinned_empty(count, np.uint8)
    host[...] = 5
    spin_then_fill.forall(busy.size, stream=stream)(busy, np.float32(0), 40_000_000)
    out.copy_from_host(host, stream, blocking=False)
    assert not stream.query()
    del host
    gc.collect()
    other = kd.pinned_empty(count, np.uint8)
    other[...] = 9
    stream.synchronize()
    assert (out.copy_to_host() == 5).all()


def test_trimming_gives_back_what_waits_to_be_used_again() -> None:
    with kd.MemoryPool() as pool:
        for nbytes in (100, MIB, 3 * MIB):
            kd.empty(nbytes, np.uint8)
        first = kd.empty(MIB, np.uint8)
        pointer = first.pointer
        del first
        assert kd.empty(MIB, np.uint8).pointer == pointer
    assert pool.stats().reserved_bytes > 0
    kd.synchronize()
    pool.trim()
    assert pool.stats().reserved_bytes == 0


def test_statistics_know_page_locked_and_managed_memory() -> None:
    before = kd.memory_stats("cuda:0")
    pinned, managed = kd.pinned_empty(1000, np.uint8), kd.managed_empty(500, np.uint8)
    now = kd.memory_stats("cuda:0")
    assert now.pinned_bytes - before.pinned_bytes == pinned.nbytes
    assert now.managed_bytes - before.managed_bytes == managed.nbytes
    del pinned, managed
    gc.collect()
    assert kd.memory_stats("cuda:0").pinned_bytes == before.pinned_bytes


def test_copies_of_arrays_in_another_order_stay_on_the_device() -> None:
    source = np.arange(700.0 * 500).reshape(700, 500)
    x, stream = kd.to_device(source), kd.Stream()
    views: list[Any] = [x.T, x[::2, 1:], x[:, ::-3]]
    made = [each.copy() for each in views]  # compiled before it is recorded
    with stream.capture() as graph:  # a copy over the host cannot be recorded
        made = [each.copy() for each in views]
    graph.launch(stream)
    stream.synchronize()
    for each, expected in zip(made, (source.T, source[::2, 1:], source[:, ::-3]), strict=True):
        np.testing.assert_array_equal(each.copy_to_host(), expected)


# --------------------------------------------------------------------------- leaks


@pytest.mark.alone
def test_nothing_leaks() -> None:
    """A short form of what benchmarks/memory.py measures over a million."""
    place, pool = device_of("cuda:0"), kd.MemoryPool.default("cuda:0")
    allocate(place, MIB)
    kd.synchronize()
    pool.trim()
    before, in_use = free_bytes(), pool.stats().in_use_bytes
    for count in range(20_000):
        allocate(place, 1 + (count * 7919) % MIB)
    kd.synchronize()
    pool.trim()
    assert pool.stats().in_use_bytes == in_use
    assert free_bytes() >= before


def test_many_threads_allocate_and_free() -> None:
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        kept: list[Any] = []
        try:
            with kd.use("cuda:0"):
                for _ in range(300):
                    kept.append(kd.full(int(rng.integers(1, 5000)), seed, np.int32))
                    if len(kept) > 8:
                        array = kept.pop(int(rng.integers(len(kept))))
                        assert (array.copy_to_host() == seed).all()
        except BaseException as error:  # noqa: BLE001 -- handed to the main thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
