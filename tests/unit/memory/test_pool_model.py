"""Pools of device memory against a model of them, whatever is done in whatever order."""

from __future__ import annotations

import ctypes
import gc
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import kerneldsl as kd
from kerneldsl.memory.pools import device_memory
from kerneldsl.placement.devices import device_of
from targets import null
from targets.cpu.runtime.host_pool import block_bytes
from targets.null.devices import SMALL_OLD_CARD
from tests.support.extent import examples

#: Running out of memory collects garbage, often here.

CAPACITY = SMALL_OLD_CARD.extra["total_memory_bytes"]


class PoolMachine(RuleBasedStateMachine):
    """Pools, buffers and streams of one device, beside a model of what they must say."""

    target = "cpu"
    capacity: int | None = None
    sizes = st.integers(1, 5000)

    pools = Bundle("pools")
    buffers = Bundle("buffers")
    streams = Bundle("streams")

    @initialize(target=pools)
    def begin(self) -> kd.MemoryPool:
        self.set_up()
        self.place = device_of(self.target)
        self.live: dict[int, tuple[Any, kd.MemoryPool, int, int]] = {}
        self.counts: dict[kd.MemoryPool, list[int]] = {}
        self.peaks: dict[kd.MemoryPool, int] = {}
        self.serial = 0
        memory = device_memory(self.place)
        for free in memory.kept_back:  # memory of other tests, which a full pool frees, too
            free()
        self.device_in_use = memory.sums.in_use
        return self.note_pool(kd.MemoryPool(self.target))

    def set_up(self) -> None:
        pass

    def note_pool(self, pool: kd.MemoryPool) -> kd.MemoryPool:
        self.counts[pool] = [0, 0]
        self.peaks[pool] = 0
        return pool

    def in_use(self, pool: kd.MemoryPool | None = None) -> int:
        return sum(n for _, p, n, _ in self.live.values() if pool is None or p is pool)

    @rule(target=pools, limit=st.none() | st.integers(0, 12000))
    def make_pool(self, limit: int | None) -> kd.MemoryPool:
        return self.note_pool(kd.MemoryPool(self.target, limit=limit))

    @rule(target=streams, blocking=st.booleans())
    def make_stream(self, blocking: bool) -> kd.Stream:
        return kd.Stream(self.target, blocking=blocking)

    @rule(pool=pools, limit=st.none() | st.integers(-5, 12000))
    def set_limit(self, pool: kd.MemoryPool, limit: int | None) -> None:
        before = pool.limit
        if limit is not None and (limit < 0 or limit < self.in_use(pool)):
            with pytest.raises(kd.ArgumentValueError, match=str(limit)):
                pool.limit = limit
            assert pool.limit == before
        else:
            pool.limit = limit
            assert pool.limit == limit

    @rule(target=buffers, pool=pools, nbytes=sizes, data=st.data())
    def take(self, pool: kd.MemoryPool, nbytes: int, data: st.DataObject) -> int:
        self.serial += 1
        known = [None, *list(data.draw(st.lists(self.streams, max_size=1)))]
        stream = known[-1]
        limit = pool.limit
        if pool.is_closed:
            with pytest.raises(kd.ClosedResourceError, match="has been closed"):
                pool.allocate(nbytes, stream)
            return self.serial
        has_room = self.capacity is None or self.in_use() + nbytes <= self.capacity
        if not has_room or (limit is not None and self.in_use(pool) + nbytes > limit):
            with pytest.raises(kd.OutOfMemoryError, match=str(nbytes)):
                pool.allocate(nbytes, stream)
            return self.serial
        buffer = pool.allocate(nbytes, stream)
        assert buffer.pointer % 256 == 0
        assert buffer.pointer != 0
        self.counts[pool][0] += 1
        self.live[self.serial] = (buffer, pool, nbytes, self.serial % 251)
        self.peaks[pool] = max(self.peaks[pool], self.in_use(pool))
        self.write(buffer, self.serial % 251)
        return self.serial

    def write(self, buffer: Any, value: int) -> None:
        held = ctypes.create_string_buffer(bytes([value]) * min(buffer.nbytes, 5000), 5000)
        nbytes = min(buffer.nbytes, 5000)
        self.place.copy_from_host(buffer.pointer, ctypes.addressof(held), nbytes)

    def read(self, buffer: Any) -> bytes:
        held = ctypes.create_string_buffer(5000)
        nbytes = min(buffer.nbytes, 5000)
        self.place.copy_to_host(ctypes.addressof(held), buffer.pointer, nbytes)
        return held.raw[:nbytes]

    @rule(key=buffers, stream=streams)
    def use(self, key: int, stream: kd.Stream) -> None:
        if key in self.live:
            self.live[key][0].note_use(stream._stream)

    @rule(key=consumes(buffers), by_closing=st.booleans())
    def give_back(self, key: int, by_closing: bool) -> None:
        if key not in self.live:
            return
        buffer, pool, nbytes, value = self.live.pop(key)
        assert self.read(buffer) == bytes([value]) * min(nbytes, 5000)
        if by_closing:
            buffer.close()
            buffer.close()
        del buffer
        self.counts[pool][1] += 1

    @rule(pool=pools, keep=st.sampled_from([0, 100, 10**6]))
    def trim(self, pool: kd.MemoryPool, keep: int) -> None:
        pool.trim(keep)
        if keep == 0:
            reserved = pool.stats().reserved_bytes
            assert reserved <= sum(
                self.reserved_of(n) for _, p, n, _ in self.live.values() if p is pool
            )

    def reserved_of(self, nbytes: int) -> int:
        return block_bytes(nbytes)

    @rule(pool=pools)
    def close_pool(self, pool: kd.MemoryPool) -> None:
        pool.close()
        assert pool.is_closed

    @invariant()
    def statistics_agree(self) -> None:
        if not hasattr(self, "counts"):
            return
        for pool, (taken, given) in self.counts.items():
            stats = pool.stats()
            assert stats.in_use_bytes == self.in_use(pool)
            assert (stats.allocation_count, stats.free_count) == (taken, given)
            assert stats.peak_bytes == self.peaks[pool]
            assert stats.reserved_bytes >= stats.in_use_bytes
            assert 0 <= stats.hit_count <= taken
            assert stats.limit_bytes == pool.limit
        whole = device_memory(self.place).sums.in_use - self.device_in_use
        assert whole == self.in_use()

    @invariant()
    def memory_is_untouched_and_apart(self) -> None:
        spans = sorted(
            (b.pointer, b.pointer + n) for b, _, n, _ in getattr(self, "live", {}).values()
        )
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))
        for buffer, _, nbytes, value in getattr(self, "live", {}).values():
            assert self.read(buffer) == bytes([value]) * min(nbytes, 5000)

    def teardown(self) -> None:
        self.live = {}
        gc.collect()


class NullPoolMachine(PoolMachine):
    """The same with a capacity that is soon reached, on a device that checks every address."""

    target = "null"
    capacity = CAPACITY
    sizes = st.integers(1, 5000) | st.integers(1, CAPACITY // 2)

    def set_up(self) -> None:
        self.described = null.described_as(SMALL_OLD_CARD)
        self.described.__enter__()
        kd.MemoryPool.default("null").trim()

    def reserved_of(self, nbytes: int) -> int:
        return nbytes

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "described"):
            self.counts = {}
            gc.collect()
            self.described.__exit__(None, None, None)


_SETTINGS = settings(
    max_examples=examples(40),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestPoolsOfTheCpu = PoolMachine.TestCase
TestPoolsOfTheCpu.settings = _SETTINGS
TestPoolsOfTheNullTarget = NullPoolMachine.TestCase
TestPoolsOfTheNullTarget.settings = _SETTINGS
