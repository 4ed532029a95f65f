"""What the pools of one device share, and the memory that they give out.

Memory is freed by finalizers, which Python may run at any moment, also while this thread is inside
a pool. So freeing never waits: what is freed is put into a queue, and whoever holds the lock of the
device empties it before going on.
"""

from __future__ import annotations

import os
import sys
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from kerneldsl.environment import logger
from kerneldsl.errors import KernelError
from kerneldsl.locks import ForkSafeLock
from kerneldsl.runtime.order import is_foreign
from kerneldsl.runtime.placement import Place
from kerneldsl.target import Buffer, Device, DeviceStream
from kerneldsl.target.memory import WHOLE_DEVICE

if TYPE_CHECKING:
    from kerneldsl.runtime.arrays import DeviceArray
    from kerneldsl.runtime.pools import MemoryPool

__all__ = ["Counts", "DeviceMemory", "PooledBuffer", "device_memories", "device_memory"]


class Counts:
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
        self.counts = Counts()
        self.pools: weakref.WeakSet[MemoryPool] = weakref.WeakSet()
        self.freed: deque[tuple[MemoryPool, int, int, Any, tuple[Any, ...]]] = deque()
        self.lock = ForkSafeLock()
        self._is_busy = False
        #: Page-locked and managed memory by the id of its owner: which of the two, and bytes.
        self.shared: dict[int, tuple[str, int]] = {}
        self.default: MemoryPool

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


_devices: dict[Place, DeviceMemory] = {}
_devices_lock = ForkSafeLock()


def device_memory(place: Place) -> DeviceMemory:
    """What the pools of a device share, made at the first call."""
    found = _devices.get(place)
    if found is None:
        with _devices_lock:
            found = _devices.get(place)
            if found is None:
                from kerneldsl.runtime.pools import MemoryPool

                found = DeviceMemory(place)
                found.default = MemoryPool._of(found, "default")
                _devices[place] = found
    return found


def device_memories() -> tuple[DeviceMemory, ...]:
    """Of every device whose memory was used."""
    return tuple(_devices.values())


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
        "family",
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
        #: The arrays over this memory, once there is more than one.
        self.family: weakref.WeakSet[DeviceArray] | None = None

    @property
    def place(self) -> Place:
        """Where it is."""
        return self._pool._place

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
        elif not is_foreign(stream):
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


def _after_fork_in_child() -> None:
    for memory in device_memories():
        memory._is_busy = False  # the thread that was busy does not exist here


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
