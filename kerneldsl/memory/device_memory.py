"""Memory of a device that its pools share, and the blocks that they give out.

Finalizers free memory. Python may run them at any moment, also while this thread is inside a pool.
So freeing never waits: freed memory is put into a queue, and the thread that holds the lock of the
device empties the queue.
"""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kerneldsl.contract import Buffer, Device, DeviceStream
from kerneldsl.contract.error_history import error_log
from kerneldsl.contract.locations import Location
from kerneldsl.contract.memory import WHOLE_DEVICE
from kerneldsl.errors import DriverError, OutOfMemoryError, StreamError
from kerneldsl.streams.order import is_foreign
from kerneldsl.utilities.environment import logger
from kerneldsl.utilities.formatting import format_bytes

if TYPE_CHECKING:
    from kerneldsl.memory.arrays import DeviceArray
    from kerneldsl.memory.host_memory import FreeList
    from kerneldsl.memory.pools import MemoryPool

__all__ = ["BufferMethods", "Counts", "DeviceMemory", "PooledBuffer", "collect_and_acquire"]


#: The handle of each thread's own default stream (CUDA Driver API, ``CU_STREAM_PER_THREAD``).
_THREADS_DEFAULT = 2


class Counts:
    """Counters of a pool."""

    __slots__ = ("allocations", "frees", "hits", "in_use", "largest", "peak")

    def __init__(self) -> None:
        self.in_use = self.peak = self.largest = 0
        self.allocations = self.frees = self.hits = 0

    def add(self, other: Counts) -> None:
        """Take over what a pool that is gone has counted; nothing of it is in use."""
        self.largest = max(self.largest, other.largest)
        self.allocations += other.allocations
        self.frees += other.frees
        self.hits += other.hits


class DeviceMemory:
    """Shared state of a device's pools: the lock, the sums, and the queue of memory to be freed.

    Attributes
    ----------
    device : Device
        The device.
    lock : RLock
        Held for each call of a backend. A finalizer may allocate while its thread holds it.
    sums : Counts
        Bytes of arrays now and at their maximum, over all pools; other memory is not counted.
    pools : WeakSet of MemoryPool
        The existing pools.
    gone : Counts
        Counts of deleted pools, after `forget_pools`.
    going : deque of Counts
        Counts of pools with finalizers that ran since then.
    freed : deque
        Memory that finalizers have freed: pool, address, size, home stream, other uses.
    shared : dict
        Page-locked and managed memory by the id of its owner: its kind, and bytes.
    default : MemoryPool
        The pool that is used if no other pool is active.
    shareable : MemoryPool or None
        The pool with memory that other processes can open, once it is needed.
    kept_back : list of function
        Functions that free memory which waits to be freed together.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.lock = threading.RLock()
        self.sums = Counts()
        self.pools: weakref.WeakSet[MemoryPool] = weakref.WeakSet()
        self.gone = Counts()
        self.going: deque[Counts] = deque()
        self.freed: deque[tuple[MemoryPool, Location, int, Any, tuple[Any, ...]]] = deque()
        self.shared: dict[int, tuple[str, int]] = {}
        self.default: MemoryPool
        self.shareable: MemoryPool | None = None
        self.kept_back: list[Callable[[], None]] = []
        #: Whether the thread that holds the lock is inside a backend.
        self._is_busy = False

    def acquire(self, pool: MemoryPool, nbytes: int, stream: Any) -> Location:
        """Take memory and count it; raises `OutOfMemoryError` if there is too little."""
        if self.freed:
            self.drain()
        counts, sums = pool._counts, self.sums
        with self.lock:
            if pool._limit is not None or pool._is_closed:
                pool._check_room(nbytes)
            was_busy, self._is_busy = self._is_busy, True
            try:
                pointer, is_new = pool._backend.acquire(nbytes, stream)
            finally:
                self._is_busy = was_busy
            counts.allocations += 1
            if not is_new:
                counts.hits += 1
            # Plain comparisons: a call of max() costs as much as all the rest here.
            if nbytes > counts.largest:  # noqa: PLR1730
                counts.largest = nbytes
            counts.in_use += nbytes
            if counts.in_use > counts.peak:  # noqa: PLR1730
                counts.peak = counts.in_use
            sums.in_use += nbytes
            if sums.in_use > sums.peak:  # noqa: PLR1730
                sums.peak = sums.in_use
        if self.freed:
            self.drain()
        return pointer

    def release(
        self,
        pool: MemoryPool,
        pointer: Location,
        nbytes: int,
        stream: Any,
        used_on: tuple[Any, ...],
    ) -> None:
        """Free memory now, or, if that would have to wait, by the thread that holds the lock."""
        lock = self.lock
        if lock.acquire(False):  # by keyword it costs twice as much
            if not self._is_busy:
                self._is_busy = True
                try:
                    self._free(pool, pointer, nbytes, stream, used_on)
                finally:
                    self._is_busy = False
                    lock.release()
                if self.freed:
                    self.drain()
                return
            lock.release()  # a finalizer that interrupts this very thread
        self.freed.append((pool, pointer, nbytes, stream, used_on))
        self.drain()

    def drain(self) -> None:
        """Free what has been given up, unless that would mean to wait for another thread.

        If another thread holds the lock, it looks at the queue again after it has released the
        lock. So no memory is left in the queue.
        """
        lock = self.lock
        while self.freed:
            if not lock.acquire(blocking=False):
                return
            try:
                if self._is_busy:
                    return  # a finalizer that interrupts this very thread, which goes on below
                self._is_busy = True
                try:
                    while self.freed:
                        self._free(*self.freed.popleft())
                finally:
                    self._is_busy = False
            finally:
                lock.release()

    def _free(
        self,
        pool: MemoryPool,
        pointer: Location,
        nbytes: int,
        stream: Any,
        used_on: tuple[Any, ...],
    ) -> None:
        counts = pool._counts
        counts.frees += 1
        counts.in_use -= nbytes
        self.sums.in_use -= nbytes
        try:
            pool._backend.release(pointer, nbytes, stream, used_on)
        except DriverError as error:  # a finalizer has nobody to tell; the next call says it again
            error_log.record(error, was_swallowed=True)

    def forget_pools(self) -> None:
        """Add up what was counted by pools that are gone."""
        with self.lock:
            while self.going:
                self.gone.add(self.going.popleft())

    def trim(self, pool: MemoryPool, keep_bytes: int) -> None:
        """Free the unused memory of the pool."""
        self.drain()
        self.clear_free_lists(pool._free_lists.values())
        with self.lock:
            was_busy, self._is_busy = self._is_busy, True
            try:
                pool._backend.trim(keep_bytes)
            finally:
                self._is_busy = was_busy
        self.drain()

    def clear_free_lists(self, free_lists: Iterable[FreeList]) -> None:
        """Free the unused memory that native code caches on free lists."""
        with self.lock:
            was_busy, self._is_busy = self._is_busy, True
            try:
                for free_list in tuple(free_lists):
                    free_list.clear()
            finally:
                self._is_busy = was_busy


class BufferMethods(Buffer):
    """Memory of a pool; goes back when the object goes, or at `close`.

    Attributes
    ----------
    pointer : Location
        Its location on the device; 0 without memory.
    nbytes : int
        The requested size.
    """

    __slots__ = (
        "_home",
        "_pool",
        "_uses",
        "family",
        "free_list",
        "is_recorded",
        "is_shared",
        "nbytes",
        "pointer",
    )

    def __init__(self, pool: MemoryPool, pointer: Location, nbytes: int, home: Any) -> None:
        self.pointer = pointer
        self.nbytes = nbytes
        self._pool = pool
        #: The stream it was acquired in, kept alive; None for the default stream.
        self._home = home
        #: Handle of another stream to that stream, or to a mark in it.
        self._uses: dict[Any, Any] | None = None
        #: Whether the memory was passed to other libraries, which use it in unknown streams.
        self.is_shared = False
        #: Whether a graph uses the memory.
        self.is_recorded = False
        #: The arrays over this memory by their identity, once there is more than one.
        self.family: weakref.WeakValueDictionary[int, DeviceArray] | None = None
        #: The free list on which native code puts the memory when the object is deleted.
        self.free_list: FreeList | None = None

    @property
    def device(self) -> Device:  # type: ignore[override]  # read alone
        """Device of the memory."""
        return self._pool.device

    def note_use(self, stream: Any) -> None:
        """Note that something in `stream` now uses the memory.

        - `stream`: a stream of kerneldsl, which is kept alive until the memory is free; ``None``
          for the default stream; or another library's stream. Its handle is not used after this
          call.
        """
        if stream is self._home or not self.pointer:
            return
        uses = self._uses
        if uses is None:
            uses = self._uses = {}
        if stream is None:
            uses[0] = None
        elif not is_foreign(stream):
            uses[stream.own_handle] = stream
        else:
            handle = stream.handle if isinstance(stream, DeviceStream) else stream
            # The default streams of all threads share one number.
            key = threading.current_thread() if handle == _THREADS_DEFAULT else handle
            uses[key] = self._pool._backend.mark(handle, uses.get(key))

    def close(self) -> None:
        """Give the memory back now, in the order of the streams that used it; twice is harmless."""
        pointer = self.pointer
        if not pointer:
            return
        self.pointer = 0
        if not self.nbytes:
            return
        used_on = () if self._uses is None else tuple(self._uses.values())
        if self.is_shared:
            used_on += (WHOLE_DEVICE,)
        pool = self._pool
        pool._memory.release(pool, pointer, self.nbytes, self._home, used_on)

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        # When the interpreter ends, the driver frees everything with the process.
        if not _is_finalizing():
            self.close()

    def __repr__(self) -> str:
        where = self.pointer
        state = f"at {where:#x}" if isinstance(where, int) and where else f"at {where!r}"
        state = state if where else "without memory"
        return f"<PooledBuffer {self.nbytes} bytes {state} on {self.device}>"


class PooledBuffer(BufferMethods):
    """Memory of a pool, see `BufferMethods`; its finalizer is native once forms are."""

    __slots__ = ()


# Python frees arrays of a reference cycle only when its collector runs. Freed memory may wait for
# the work that used it; and pools keep memory for later. So all of it is collected, waited for and
# freed before the second and last try.
def collect_and_acquire(
    pool: MemoryPool, nbytes: int, stream: Any, first: OutOfMemoryError
) -> Location:
    """Collect unused memory, and try a second time.

    Raises `OutOfMemoryError` saying how much was requested, what is free, and who has the rest.
    """
    memory, device = pool._memory, pool.device
    logger.debug("%s; collecting unused memory", first)
    gc.collect()
    for free_waiting in memory.kept_back:
        free_waiting()
    memory.drain()
    if first.name != "POOL_LIMIT":
        try:
            device.synchronize()
        except StreamError as error:  # somebody records a graph, so the device cannot be waited for
            logger.debug("%s", error)
        for other in tuple(memory.pools):
            memory.trim(other, 0)
    try:
        return memory.acquire(pool, nbytes, stream)
    except OutOfMemoryError as error:
        for other in tuple(memory.pools):  # what the driver took in vain for the second try
            memory.trim(other, 0)
        raise _explained(pool, nbytes, error) from error


def _explained(pool: MemoryPool, nbytes: int, error: OutOfMemoryError) -> OutOfMemoryError:
    if error.name == "POOL_LIMIT":
        return error
    memory, device = pool._memory, pool.device
    reserved = 0
    chain = []
    for other in sorted(memory.pools, key=lambda p: p.number):
        stats = other.stats()
        reserved += stats.reserved_bytes
        chain.append(
            f"the pool {stats.name!r} has reserved {format_bytes(stats.reserved_bytes)}, of "
            f"which {format_bytes(stats.in_use_bytes)} are in use"
        )
    info = device.memory_info()
    limit = None
    if info is not None:
        free, total = info
        limit = f"{format_bytes(free)} of {format_bytes(total)} are free"
        elsewhere = max(total - free - reserved, 0)
        chain.append(
            f"{format_bytes(elsewhere)} are held by other processes, other libraries and the driver"
        )
    caches = tuple(device.foreign_caches())
    chain += [text for text, _ in caches]
    remedy = "Free arrays, with array.close() or by dropping them, or use smaller ones"
    remedy += "".join(f"; {advice}" for _, advice in caches)
    return OutOfMemoryError(
        f"could not allocate {nbytes} bytes ({format_bytes(nbytes)}) on {device}",
        code=error.code,
        name=error.name,
        value=nbytes,
        limit=limit,
        remedy=remedy,
        chain=tuple(chain),
        doing=f"allocate {nbytes} bytes on {device}",
    )
