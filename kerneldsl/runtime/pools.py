"""Pools of device memory: where every device array's memory comes from.

A target's :class:`~kerneldsl.target.PoolBackend` takes and gives memory; everything a pool promises
is here, once for all targets: limits, counts, what happens when memory runs out, and that freed
memory is not given out again before the streams that used it are done with it.

Memory is freed by finalizers, which Python may run at any moment, also while this thread is inside
a pool. So freeing never waits: what is freed is put into a queue, and whoever holds the lock of the
device empties it before going on.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import sys
import weakref
from collections import deque
from types import TracebackType
from typing import Any, Self

from kerneldsl.environment import logger
from kerneldsl.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    ClosedResourceError,
    KernelError,
    OutOfMemoryError,
)
from kerneldsl.locks import ForkSafeLock
from kerneldsl.runtime.memory_statistics import PoolStatistics, readable_bytes
from kerneldsl.runtime.placement import Place, current_place, place_of
from kerneldsl.target import Buffer, Device, DeviceStream, PoolBackend
from kerneldsl.target.memory import WHOLE_DEVICE

__all__ = [
    "DeviceMemory",
    "MemoryPool",
    "PooledBuffer",
    "allocate",
    "device_memory",
]

#: More bytes than an address can name.
_ABSURD_BYTES = 1 << 63
_serial = itertools.count(1)


class _Counts:
    """What is counted, for a pool and for a device."""

    __slots__ = ("allocations", "frees", "hits", "in_use", "largest", "peak")

    def __init__(self) -> None:
        self.in_use = self.peak = self.largest = 0
        self.allocations = self.frees = self.hits = 0

    def note(self, nbytes: int, is_hit: bool) -> None:
        self.in_use += nbytes
        self.peak = max(self.peak, self.in_use)
        self.largest = max(self.largest, nbytes)
        self.allocations += 1
        self.hits += is_hit

    def note_free(self, nbytes: int) -> None:
        self.in_use -= nbytes
        self.frees += 1


class DeviceMemory:
    """What the pools of one device share: the lock, the counts, and what waits to be freed.

    Attributes
    ----------
    place : Place
        The device.
    counts
        Over all pools, also those that are gone.
    pools : WeakSet of MemoryPool
        The pools that are there.
    freed : deque
        What finalizers have given up: pool, address, size, home stream, other uses.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.counts = _Counts()
        self.pools: weakref.WeakSet[MemoryPool] = weakref.WeakSet()
        self.freed: deque[tuple[MemoryPool, int, int, Any, tuple[Any, ...]]] = deque()
        self.lock = ForkSafeLock()
        self._is_busy = False
        self.default = MemoryPool._of(self, "default")

    # ------------------------------------------------------------------ memory

    def acquire(self, pool: MemoryPool, nbytes: int, stream: Any) -> int:
        """Take memory and count it; raises `OutOfMemoryError` where there is no room."""
        if self.freed:
            self.drain()
        with self.lock:
            pool._check_room(nbytes)
            was_busy, self._is_busy = self._is_busy, True
            try:
                pointer = pool._backend.acquire(nbytes, stream)
                reserved = pool._backend.reserved_bytes()
            finally:
                self._is_busy = was_busy
            is_hit = reserved <= pool._reserved
            pool._reserved = reserved
            pool._counts.note(nbytes, is_hit)
            self.counts.note(nbytes, is_hit)
        if self.freed:
            self.drain()
        return pointer

    def drain(self) -> None:
        """Free what has been given up, unless that would mean to wait for another thread.

        Whoever keeps this one from doing so looks at the queue again after it has let go of the
        lock, so nothing is left behind.
        """
        while self.freed:
            if not self.lock.try_enter():
                return
            try:
                if self._is_busy:
                    return  # a finalizer that interrupts this very thread, which goes on below
                self._is_busy = True
                try:
                    self._free_queued()
                finally:
                    self._is_busy = False
            finally:
                self.lock.leave()

    def _free_queued(self) -> None:
        while self.freed:
            pool, pointer, nbytes, stream, used_on = self.freed.popleft()
            pool._counts.note_free(nbytes)
            self.counts.note_free(nbytes)
            try:
                pool._backend.release(pointer, nbytes, stream, used_on)
            except KernelError as error:  # nobody to tell; what failed on the device says so again
                logger.debug("%s", error)

    def trim(self, pool: MemoryPool, keep_bytes: int) -> None:
        """Give back what the pool keeps unused."""
        self.drain()
        with self.lock:
            was_busy, self._is_busy = self._is_busy, True
            try:
                pool._backend.trim(keep_bytes)
                pool._reserved = pool._backend.reserved_bytes()
            finally:
                self._is_busy = was_busy
        self.drain()

    def _after_fork_in_child(self) -> None:
        self._is_busy = False  # the thread that was busy does not exist here


_devices: dict[Place, DeviceMemory] = {}
_devices_lock = ForkSafeLock()


def device_memory(place: Place) -> DeviceMemory:
    """What the pools of a device share, made at the first call."""
    found = _devices.get(place)
    if found is None:
        with _devices_lock:
            found = _devices.get(place)
            if found is None:
                found = _devices[place] = DeviceMemory(place)
    return found


class PooledBuffer(Buffer):
    """Memory of a pool; goes back when the object goes, or at `close`.

    Attributes
    ----------
    pointer : int
        Address on the device; 0 without memory.
    nbytes : int
        Size as asked for.
    """

    __slots__ = (
        "__weakref__",
        "_home",
        "_pool",
        "_uses",
        "device",
        "is_closed",
        "is_shared",
        "nbytes",
        "pointer",
    )

    def __init__(self, pool: MemoryPool, pointer: int, nbytes: int, home: Any) -> None:
        self.device: Device = pool._place.device
        self.pointer = pointer
        self.nbytes = nbytes
        self._pool = pool
        #: The stream it was acquired in, kept alive; None for the default stream.
        self._home = home
        #: Handle of another stream to that stream, or to a mark in it.
        self._uses: dict[int, Any] | None = None
        #: Whether other libraries have the memory, which use it in streams that nobody knows.
        self.is_shared = False
        self.is_closed = False

    def note_use(self, stream: Any) -> None:
        """Note that something in `stream` now uses the memory.

        Parameters
        ----------
        stream : DeviceStream or None or object
            A stream of ours, which is kept alive until the memory is free; ``None`` for the
            default stream; or another library's, whose handle is not touched after this call.
        """
        if stream is self._home or not self.pointer:
            return
        uses = self._uses
        if uses is None:
            uses = self._uses = {}
        if stream is None:
            uses[0] = None
        elif isinstance(stream, DeviceStream) and not stream.is_foreign:
            uses[stream.own_handle] = stream
        else:
            handle = stream.handle if isinstance(stream, DeviceStream) else stream
            key = handle if isinstance(handle, int) else id(handle)
            uses[key] = self._pool._backend.mark(handle, uses.get(key))

    def close(self) -> None:
        """Give the memory back now, in the order of the streams that used it; twice is harmless."""
        if self.is_closed:
            return
        self.is_closed = True
        pointer, self.pointer = self.pointer, 0
        if not pointer or not self.nbytes:
            return
        used_on = tuple(self._uses.values()) if self._uses else ()
        if self.is_shared:
            used_on += (WHOLE_DEVICE,)
        memory = self._pool._memory
        memory.freed.append((self._pool, pointer, self.nbytes, self._home, used_on))
        memory.drain()

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        # At the end of the interpreter the driver frees everything with the process.
        if not _is_finalizing():
            self.close()

    def __repr__(self) -> str:
        state = "closed" if self.is_closed else f"at {self.pointer:#x}"
        return f"<PooledBuffer {self.nbytes} bytes {state} on {self.device}>"


#: Host memory that empty arrays on a host target point at, so that NumPy takes them.
_nothing = bytearray(512)


def _address_of_nothing() -> int:
    import ctypes

    start = ctypes.addressof(ctypes.c_char.from_buffer(_nothing))
    return -(-start // 256) * 256


class MemoryPool:
    """A pool of device memory of one's own, beside the default one of each device.

    ``with pool:`` lets arrays of that device come from it in this context (thread or asyncio task);
    their memory goes back to it whenever they go, also after the block.

    Parameters
    ----------
    device : str or Device, optional
        Whose memory; by default where kernels run now.
    limit : int, optional
        Bytes that may be in use at one time; no limit by default.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        For a limit that is not an int >= 0.

    Notes
    -----
    Freed memory is kept for the next array; :meth:`trim` gives it back to the device. It is given
    out again only in an order that the streams allow in which it was used.
    """

    _place: Place
    _backend: PoolBackend

    def __init__(self, device: str | Device | None = None, *, limit: int | None = None) -> None:
        place = current_place() if device is None else place_of(device)
        self._set_up(device_memory(place), f"pool {next(_serial)}")
        self.limit = limit

    @classmethod
    def _of(cls, memory: DeviceMemory, name: str) -> Self:
        pool = cls.__new__(cls)
        pool._set_up(memory, name)
        return pool

    def _set_up(self, memory: DeviceMemory, name: str) -> None:
        self._memory = memory
        self._place = memory.place
        #: What statistics and errors call it.
        self.name = name
        self._limit: int | None = None
        self._counts = _Counts()
        self._is_closed = False
        self._backend = memory.place.target.create_pool(memory.place.device)
        self._reserved = self._backend.reserved_bytes()
        memory.pools.add(self)

    @classmethod
    def default(cls, device: str | Device | None = None) -> MemoryPool:
        """Return the pool that serves a device where no other one is active."""
        place = current_place() if device is None else place_of(device)
        return device_memory(place).default

    @property
    def device(self) -> Device:
        """Whose memory it gives."""
        return self._place.device

    @property
    def is_closed(self) -> bool:
        """Whether `close` was called."""
        return self._is_closed

    @property
    def limit(self) -> int | None:
        """Bytes that may be in use at one time; ``None`` for no limit. It can be set.

        Setting it below what is in use raises `ArgumentValueError` and changes nothing.
        """
        return self._limit

    @limit.setter
    def limit(self, limit: int | None) -> None:
        if limit is not None:
            if not isinstance(limit, int) or isinstance(limit, bool):
                raise ArgumentTypeError(
                    f"the limit of a memory pool is {limit!r}",
                    value=limit,
                    limit="It is a number of bytes as an int, or None for no limit",
                )
            if limit < 0:
                raise ArgumentValueError(
                    f"the limit of a memory pool is {limit} bytes",
                    value=limit,
                    limit="It must be at least 0; None is no limit",
                )
            self._memory.drain()
            in_use = self._counts.in_use
            if limit < in_use:
                raise ArgumentValueError(
                    f"the limit of {limit} bytes is less than the {in_use} bytes that arrays of "
                    f"the pool {self.name!r} on {self._place.name} have",
                    value=limit,
                    limit=f"It must be at least {in_use} bytes now",
                    remedy="Free arrays first, with array.close() or by dropping them",
                )
        self._limit = limit

    def stats(self) -> PoolStatistics:
        """Return what the pool has done, and holds."""
        memory, counts = self._memory, self._counts
        memory.drain()
        with memory.lock:
            return PoolStatistics(
                device=self._place.name,
                name=self.name,
                in_use_bytes=counts.in_use,
                reserved_bytes=self._backend.reserved_bytes(),
                peak_bytes=counts.peak,
                largest_bytes=counts.largest,
                limit_bytes=self._limit,
                allocation_count=counts.allocations,
                free_count=counts.frees,
                hit_count=counts.hits,
            )

    def trim(self, keep_bytes: int = 0) -> None:
        """Give memory that is not in use back to the device.

        Parameters
        ----------
        keep_bytes : int
            Down to so many reserved bytes, in use included.

        Notes
        -----
        Memory whose last work has not finished yet stays; wait with `kerneldsl.synchronize` first.
        """
        if not isinstance(keep_bytes, int) or isinstance(keep_bytes, bool) or keep_bytes < 0:
            raise ArgumentValueError(
                f"keep_bytes is {keep_bytes!r}", value=keep_bytes, limit="It is an int >= 0"
            )
        self._memory.trim(self, keep_bytes)

    def close(self) -> None:
        """Give nothing out any more, and give back what is not in use; twice is harmless.

        Arrays that the pool has given out stay valid; their memory goes back to the device when
        they go.

        Raises
        ------
        ArgumentValueError
            For the default pool of a device.
        """
        if self is self._memory.default:
            raise ArgumentValueError(
                f"the default pool of {self._place.name} cannot be closed",
                value=self.name,
                remedy="pool.trim() gives back what it keeps unused",
            )
        self._memory.drain()
        with self._memory.lock:
            if not self._is_closed:
                self._is_closed = True
                self._backend.close()

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        # Buffers hold their pool, so none are left. A pool that failed to be made has no backend.
        if not _is_finalizing() and hasattr(self, "_reserved") and not self._is_closed:
            self._backend.close()

    def __enter__(self) -> Self:
        self._check_open()
        _active.set((*_active.get(), self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        stack = _active.get()
        last = max(place for place, pool in enumerate(stack) if pool is self)
        _active.set(stack[:last] + stack[last + 1 :])

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        in_use = readable_bytes(self._counts.in_use)
        return f"MemoryPool({self.name!r} on {self._place.name}, {in_use} in use{closed})"

    # ------------------------------------------------------------------ allocating

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedResourceError(
                f"the memory pool {self.name!r} on {self._place.name} has been closed",
                value=self,
                limit="A closed pool gives no memory",
                remedy="Make another one: kd.MemoryPool(device)",
            )

    def _check_room(self, nbytes: int) -> None:
        if self._is_closed:
            self._check_open()
        limit = self._limit
        if limit is not None and self._counts.in_use + nbytes > limit:
            raise OutOfMemoryError(
                f"{nbytes} bytes do not fit into the pool {self.name!r} on {self._place.name}",
                code=0,
                name="POOL_LIMIT",
                value=nbytes,
                limit=f"{self._counts.in_use} of at most {limit} bytes are in use",
                remedy="Free arrays, or raise pool.limit",
                doing=f"allocate {nbytes} bytes on {self._place.name}",
            )

    def allocate(self, nbytes: int, stream: Any = None) -> PooledBuffer:
        """Take memory from this pool; see :func:`allocate`."""
        if not 0 <= nbytes < _ABSURD_BYTES:
            raise ArgumentValueError(
                f"{nbytes} bytes were asked for on {self._place.name}",
                value=nbytes,
                limit="An allocation has at least 0 and fewer than 2**63 bytes",
            )
        if nbytes == 0:
            self._check_open()
            pointer = _address_of_nothing() if self._place.is_host else 0
            return PooledBuffer(self, pointer, 0, None)
        home, is_foreign = _home_stream(self._place, stream)
        try:
            pointer = self._memory.acquire(self, nbytes, home)
        except OutOfMemoryError as error:
            from kerneldsl.runtime.out_of_memory import acquire_again

            pointer = acquire_again(self, nbytes, home, error)
        buffer = PooledBuffer(self, pointer, nbytes, home)
        if is_foreign:
            # Another library's stream may be gone when the memory is freed, so the memory belongs
            # to the default stream; the other one only waits for it.
            self._place.target.wait_stream(self._place.device, stream, None)
            buffer.note_use(stream)
        return buffer


_active: contextvars.ContextVar[tuple[MemoryPool, ...]] = contextvars.ContextVar(
    "kerneldsl_pools", default=()
)


def _home_stream(place: Place, stream: Any) -> tuple[Any, bool]:
    """The stream whose order an allocation joins, and whether `stream` is another library's."""
    streams = sys.modules.get("kerneldsl.runtime.streams")
    if stream is None:
        # Without the module nobody has made a stream, so none is active.
        return (streams.ambient_stream(place) if streams is not None else None), False
    if isinstance(stream, DeviceStream) and not stream.is_foreign:
        return stream, False
    if isinstance(stream, int) and stream in (0, 1):
        return None, False
    if streams is not None and isinstance(stream, streams.Stream):
        return _home_stream(place, streams.resolve_stream(place, stream))
    return None, not place.is_host


def allocate(place: Place, nbytes: int, stream: Any = None) -> PooledBuffer:
    """Take memory of a device from its active pool.

    Parameters
    ----------
    place : Place
        The device.
    nbytes : int
        How many bytes; without any, no memory is taken.
    stream : optional
        Stream in whose order the memory may be used; the default stream.

    Returns
    -------
    PooledBuffer
        At least 256-byte aligned, its contents undefined.

    Raises
    ------
    OutOfMemoryError
        There is no room, also after unused memory has been collected and given back.
    ArgumentValueError
        A negative or absurd size.
    """
    for pool in reversed(_active.get()):
        if pool._place is place:
            return pool.allocate(nbytes, stream)
    return (_devices.get(place) or device_memory(place)).default.allocate(nbytes, stream)


def _after_fork_in_child() -> None:
    for memory in tuple(_devices.values()):
        memory._after_fork_in_child()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
