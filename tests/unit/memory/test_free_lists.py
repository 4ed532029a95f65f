"""Memory that native code takes and puts back, beside what pools say of memory in Python."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kerneldsl as kd
from kerneldsl.launch.native import machine
from kerneldsl.memory.host_memory import MAX_BLOCKS, MAX_LISTED_BYTES, FreeList
from kerneldsl.memory.pools import device_memory
from tests.support.extent import examples
from tests.support.native import require_native_forms


@pytest.fixture(autouse=True)
def native() -> Iterator[None]:
    """Run on the CPU, with native forms."""
    require_native_forms()
    with kd.use("cpu"):
        yield


def form_of(size: int) -> tuple[kd.ArrayForm, FreeList]:
    """Return a form of so many bytes with its free list, which is empty."""
    form = kd.ArrayForm(kd.empty(size, np.uint8))
    form.empty()
    kd.MemoryPool.default().trim()
    free_list = form._free_list
    assert free_list is not None
    assert not free_list.blocks
    return form, free_list


def counts() -> tuple[int, int, int]:
    """Return bytes in use, allocations and frees of the default pool."""
    stats = kd.MemoryPool.default().stats()
    return stats.in_use_bytes, stats.allocation_count, stats.free_count


def test_what_goes_is_taken_next():
    form, free_list = form_of(1001)
    first = form.empty()
    place = first.location
    before = counts()
    del first
    assert free_list.blocks == [place]
    assert counts() == (before[0] - 1001, before[1], before[2] + 1)
    again = form.empty()
    assert not free_list.blocks
    assert again.location == again._owner.pointer == place
    assert counts() == (before[0], before[1] + 1, before[2] + 1)
    wanted = kd.empty(1001, np.uint8)._owner
    for name in ("_pool", "_home", "_uses", "is_shared", "is_recorded", "family", "nbytes"):
        assert getattr(again._owner, name) == getattr(wanted, name)
    again[...] = (np.arange(1001) % 256).astype(np.uint8)
    assert again.copy_to_host().tolist() == [n % 256 for n in range(1001)]


_ACTIONS = st.sampled_from(["form", "form", "plain", "view", "drop", "drop", "close", "trim"])


@settings(deadline=None, max_examples=examples(60))
@given(actions=st.lists(st.tuples(_ACTIONS, st.integers(0, 2), st.integers(0, 99)), max_size=60))
def test_counts_and_places_are_a_pool_s(actions):
    """Nothing that is there shares memory, and statistics are those of a model."""
    sizes = (1003, 2003, 4003)
    forms = [form_of(size)[0] for size in sizes]
    gc.collect()
    in_use, allocations, frees = counts()
    whole = kd.memory_stats()
    own, all_of_it = kd.MemoryPool.default().stats().peak_bytes, whole.peak_bytes
    others = whole.in_use_bytes - in_use
    there: list[Any] = []
    for action, which, number in actions:
        if action in ("form", "plain"):
            is_form = action == "form"
            made = forms[which].empty() if is_form else kd.empty(sizes[which], np.uint8)
            made.fill(number)
            there.append((made, number))
            del made
            in_use, allocations = in_use + sizes[which], allocations + 1
            own, all_of_it = max(own, in_use), max(all_of_it, in_use + others)
        elif action == "trim":
            kd.MemoryPool.default().trim()
        elif there:
            gone, value = there.pop(number % len(there))
            if action == "view":
                there.append((gone[:], value))
                continue
            in_use, frees = in_use - gone.nbytes, frees + 1
            if action == "close":
                gone.close()
            del gone
        assert counts() == (in_use, allocations, frees)
    stats = kd.memory_stats()
    assert kd.MemoryPool.default().stats().peak_bytes == own
    assert (stats.in_use_bytes, stats.peak_bytes) == (in_use + others, all_of_it)
    spans = sorted((each.location, each.nbytes) for each, _ in there)
    assert all(a + n <= b for (a, n), (b, _) in itertools.pairwise(spans))
    for each, value in there:
        assert set(each.copy_to_host().tolist()) == {value}


def test_no_reference_is_left_over():
    form, _ = form_of(1003)
    form.empty()
    before = sys.getrefcount(0)
    for _ in range(1000):
        form.empty()
    assert abs(sys.getrefcount(0) - before) < 100  # which others hold, too


def test_only_a_few_small_blocks_are_kept():
    form, free_list = form_of(3001)
    many = [form.empty() for _ in range(MAX_BLOCKS + 3)]
    del many
    assert len(free_list.blocks) == MAX_BLOCKS
    for size in (0, MAX_LISTED_BYTES + 1):
        other = kd.ArrayForm(kd.empty(size, np.uint8))
        assert other.empty()._owner.free_list is other._free_list is None
    pool = kd.MemoryPool.default()
    before = pool.stats().reserved_bytes
    pool.trim()
    assert not free_list.blocks
    assert pool.stats().reserved_bytes < before


def test_sizes_that_do_not_come_again_make_room():
    form, free_list = form_of(9001)
    form.empty()
    assert len(free_list.blocks) == 1
    before = counts()
    for size in range(20_000, 20_100):
        kd.ArrayForm(kd.empty(size, np.uint8)).empty()
    assert not free_list.blocks
    assert not free_list.is_open
    assert len(kd.MemoryPool.default()._free_lists) == 64
    assert counts() == (before[0], before[1] + 200, before[2] + 200)
    form.empty()
    assert form._free_list is not free_list
    assert len(form._free_list.blocks) == 1


def test_what_others_may_use_goes_through_the_pool():
    form, free_list = form_of(5001)
    lent, used, closed = (form.empty() for _ in range(3))
    lent.mark_foreign_use()
    used._owner._uses = {}
    closed.close()
    with kd.Stream():
        in_stream = form.empty()
    assert in_stream._owner.free_list is None
    with kd.MemoryPool() as pool:
        elsewhere = form.empty()
    assert elsewhere._owner._pool is pool
    assert elsewhere._owner.free_list is None
    del lent, used, closed, in_stream, elsewhere
    assert not free_list.blocks
    kept = form.empty()
    with machine.suspended():
        del kept
        assert not free_list.blocks
    form.empty()
    assert len(free_list.blocks) == 1
    with machine.suspended():
        assert form.empty() is not None
        assert len(free_list.blocks) == 1


def test_a_limit_is_kept_to():
    form, free_list = form_of(6001)
    form.empty()
    pool = kd.MemoryPool.default()
    assert len(free_list.blocks) == 1
    gc.collect()
    pool.limit = pool.stats().in_use_bytes
    try:
        assert not free_list.blocks
        with pytest.raises(kd.OutOfMemoryError):
            form.empty()
        pool.limit += 6001
        form.empty()
        assert not free_list.blocks
    finally:
        pool.limit = None
    form.empty()
    assert len(free_list.blocks) == 1


def test_a_finalizer_that_runs_twice_puts_one_block_back():
    form, free_list = form_of(7001)
    made = form.empty()
    before = counts()
    for _ in range(3):
        made._owner.__del__()
    assert made._owner.pointer == 0
    assert len(free_list.blocks) == 1
    assert counts() == (before[0] - 7001, before[1], before[2] + 1)
    del made
    assert len(free_list.blocks) == 1


def test_threads_take_and_put():
    form, _ = form_of(8001)
    before = counts()
    failures: list[Any] = []

    def work(seed: int) -> None:
        for turn in range(300):
            some = [form.empty() for _ in range(turn % 4)]
            for each in some:
                each.fill(seed)
            for each in some:
                if set(each.copy_to_host().tolist()) != {seed}:
                    failures.append(each)
            kd.empty(8001, np.uint8)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not failures
    after = counts()
    assert after[0] == before[0]
    assert after[1] - before[1] == after[2] - before[2] == 4 * (300 + 75 * 6)


def test_targets_say_whether_memory_is_used_again_at_once():
    with kd.use("null"):
        x = kd.empty(4, np.float32)
        form = kd.ArrayForm(x)
        assert form.empty()._owner.free_list is form._free_list is None
        assert device_memory(x.device).default._free_lists == {}
