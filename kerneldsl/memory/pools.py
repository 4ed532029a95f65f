"""Pools of device memory, from which device arrays are allocated.

A target's :class:`~kerneldsl.contract.PoolBackend` allocates and frees memory. This module and
:mod:`~kerneldsl.memory.device_memory` implement the rest for all targets: limits, counts, and the
steps when memory runs out. They reuse freed memory only after the streams that used it have
finished with it.
"""

from __future__ import annotations

import contextvars
import ctypes
import itertools
import math
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias

from kerneldsl.contract import Device, DeviceLike, PoolBackend
from kerneldsl.errors import ArgumentValueError, ClosedResourceError, OutOfMemoryError
from kerneldsl.errors.kernels import wrong_type, wrong_value
from kerneldsl.errors.values import safe_repr
from kerneldsl.memory.device_memory import Counts, DeviceMemory, PooledBuffer
from kerneldsl.placement.devices import chosen_device
from kerneldsl.streams.current import stream_of
from kerneldsl.streams.order import is_foreign
from kerneldsl.utilities.formatting import format_bytes
from kerneldsl.utilities.locks import ForkSafeLock
from kerneldsl.utilities.process_owned import ProcessOwned
from kerneldsl.utilities.tracebacks import shorten_errors_of

if TYPE_CHECKING:  # every array imports this module, and few programs ask for the values
    import numpy as np

    from kerneldsl.memory.host_memory import FreeList
    from kerneldsl.memory.memory_statistics import MemoryStatistics, PoolStatistics

__all__ = [
    "Allocator",
    "Form",
    "MemoryPool",
    "PooledBuffer",
    "active_pools",
    "allocate",
    "checked_size",
    "device_memories",
    "device_memory",
    "memory_stats",
    "shareable_pool",
]

#: Shape, strides in bytes, and dtype.
Form: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], np.dtype[Any]]"
#: More bytes than an address can name.
_ABSURD_BYTES = 1 << 63
_serial = itertools.count()


class Allocator(Protocol):
    """A source of memory in `active_pools`: a `MemoryPool`, or the allocator of another library."""

    _memory: DeviceMemory

    def allocate(self, nbytes: int, stream: Any = None, form: Form | None = None) -> PooledBuffer:
        """Return memory; of another library, an array of the form. A pool ignores the form."""


#: Host memory to which empty arrays on a host target point, because NumPy needs an address.
_nothing = bytearray(512)


def _empty_address() -> int:
    start = ctypes.addressof(ctypes.c_char.from_buffer(_nothing))
    return -(-start // 256) * 256


@shorten_errors_of("allocate")
class MemoryPool(ProcessOwned):
    """A pool of device memory, in addition to the default pool of each device.

    Inside of ``with pool:`` arrays of its device are allocated from it, in this context (thread or
    asyncio task). Their memory returns to it when they are deleted, also after the block.

    Parameters
    ----------
    device : str or Device, optional
        The device; by default the current one.
    limit : int, optional
        Bytes that may be in use at one time; by default without a limit.

    Raises
    ------
    ArgumentTypeError, ArgumentValueError
        For a limit that is not an int >= 0.

    Notes
    -----
    Freed memory is cached for the next array; :meth:`trim` returns it to the device. Memory is
    reused only in an order that the streams of its earlier use allow.

    Examples
    --------
    >>> import kerneldsl as kd
    >>> pool = kd.MemoryPool(limit=2**20)
    >>> with pool:
    ...     x = kd.zeros(1000)
    >>> pool.stats().in_use_bytes
    8000
    """

    _internal = frozenset({"allocate", "number"})
    _backend: PoolBackend

    def __init__(self, device: DeviceLike | None = None, *, limit: int | None = None) -> None:
        device = chosen_device(device)
        self._set_up(device_memory(device), None, device.create_pool())
        self.limit = limit

    @classmethod
    def _of(cls, memory: DeviceMemory, name: str, backend: PoolBackend) -> Self:
        pool = cls.__new__(cls)
        pool._set_up(memory, name, backend)
        return pool

    def _set_up(self, memory: DeviceMemory, name: str | None, backend: PoolBackend) -> None:
        self._memory = memory
        self.number = next(_serial)
        #: Name of the pool in statistics and errors.
        self.name = name or f"pool {self.number}"
        self._limit: int | None = None
        self._counts = Counts()
        self._is_closed = False
        #: Blocks for native code, by their size; only in a device's default pool.
        self._free_lists: dict[int, FreeList] = {}
        self._backend = backend
        memory.forget_pools()
        memory.pools.add(self)

    @classmethod
    def default(cls, device: DeviceLike | None = None) -> MemoryPool:
        """Return the default pool of a device."""
        device = chosen_device(device)
        return device_memory(device).default

    @property
    def device(self) -> Device:
        """The device of its memory."""
        return self._memory.device

    @property
    def is_closed(self) -> bool:
        """True if `close` was called."""
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
                raise wrong_type(
                    "the limit of a memory pool",
                    limit,
                    "It must be a number of bytes as an int, or None for no limit",
                )
            if not 0 <= limit < _ABSURD_BYTES:
                raise wrong_value(
                    "the limit of a memory pool",
                    limit,
                    "It must be 0 to 2**63 - 1 bytes; None means no limit",
                )
        memory = self._memory
        memory.drain()
        with memory.lock:
            in_use = self._counts.in_use
            if limit is not None and limit < in_use:
                raise ArgumentValueError(
                    f"the limit of {limit} bytes is less than the {in_use} bytes that arrays of "
                    f"the pool {self.name!r} on {self.device} have",
                    value=limit,
                    limit=f"It must be at least {in_use} bytes now",
                    remedy="Free arrays first, with array.close() or by dropping them",
                )
            self._limit = limit
            for free_list in self._free_lists.values():
                free_list.is_open = limit is None
            memory.clear_free_lists(self._free_lists.values())

    def stats(self) -> PoolStatistics:
        """Return the statistics of the pool."""
        from kerneldsl.memory.memory_statistics import PoolStatistics

        memory, counts = self._memory, self._counts
        memory.drain()
        with memory.lock:
            return PoolStatistics(
                device=str(self.device),
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
        """Return unused memory to the device.

        Parameters
        ----------
        keep_bytes : int
            Reserved bytes to keep, including those in use.

        Notes
        -----
        Memory with unfinished work stays reserved; call `kerneldsl.synchronize` first.
        """
        if not isinstance(keep_bytes, int) or isinstance(keep_bytes, bool) or keep_bytes < 0:
            raise wrong_value("keep_bytes", keep_bytes, "It must be an int >= 0")
        self._memory.trim(self, keep_bytes)

    def close(self) -> None:
        """Stop allocating, and free unused memory; twice is harmless.

        Arrays of the pool stay valid. Their memory is freed when they are deleted.

        Raises
        ------
        ArgumentValueError
            For the default pool of a device.
        """
        if self is self._memory.default:
            raise ArgumentValueError(
                f"the default pool of {self.device} cannot be closed",
                value=self.name,
                remedy="pool.trim() releases its unused memory",
            )
        self._memory.drain()
        with self._memory.lock:
            if not self._is_closed:
                self._is_closed = True
                self._backend.close()

    def __del__(self, _is_finalizing: Any = sys.is_finalizing) -> None:
        # Buffers hold their pool, so none are left. A pool that failed to be made has no backend.
        if not _is_finalizing() and hasattr(self, "_backend"):
            self._memory.going.append(self._counts)
            if not self._is_closed:
                self._backend.close()

    def __enter__(self) -> Self:
        self._check_open()
        active_pools.set((*active_pools.get(), self))
        return self

    def __exit__(self, *exc: object) -> None:
        stack = active_pools.get()
        last = max(depth for depth, pool in enumerate(stack) if pool is self)
        active_pools.set(stack[:last] + stack[last + 1 :])

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        in_use = format_bytes(self._counts.in_use)
        return f"MemoryPool({self.name!r} on {self.device}, {in_use} in use{closed})"

    # ------------------------------------------------------------------ allocating

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedResourceError(
                f"the memory pool {self.name!r} on {self.device} has been closed",
                value=self,
                limit="A closed pool allocates no memory",
                remedy="Make another one: kd.MemoryPool(device)",
            )

    def _check_room(self, nbytes: int) -> None:
        self._check_open()
        limit = self._limit
        if limit is not None and self._counts.in_use + nbytes > limit:
            raise OutOfMemoryError(
                f"{nbytes} bytes do not fit into the pool {self.name!r} on {self.device}",
                code=0,
                name="POOL_LIMIT",
                value=nbytes,
                limit=f"{self._counts.in_use} of at most {limit} bytes are in use",
                remedy="Free arrays, or raise pool.limit",
                doing=f"allocate {nbytes} bytes on {self.device}",
            )

    def allocate(self, nbytes: int, stream: Any = None, form: Form | None = None) -> PooledBuffer:
        """Take memory from this pool, for an array of any form; see :func:`allocate`."""
        if not 0 < nbytes < _ABSURD_BYTES:
            return self._allocate_empty(nbytes)
        memory = self._memory
        home = stream_of(memory.device, stream)
        if home is not None and is_foreign(home):
            # Another library's stream may not exist any more when the memory is freed, so the
            # memory belongs to the default stream. The other stream only waits for it.
            buffer = self._take(nbytes, None)
            memory.device.wait_stream(home, None)
            buffer.note_use(home)
            return buffer
        return self._take(nbytes, home)

    def _take(self, nbytes: int, home: Any) -> PooledBuffer:
        """Take memory that belongs to a stream of kerneldsl."""
        try:
            pointer = self._memory.acquire(self, nbytes, home)
        except OutOfMemoryError as error:
            from kerneldsl.memory.device_memory import collect_and_acquire

            pointer = collect_and_acquire(self, nbytes, home, error)
        return PooledBuffer(self, pointer, nbytes, home)

    def _allocate_empty(self, nbytes: int) -> PooledBuffer:
        """Return a buffer without memory; raise `ArgumentValueError` for an impossible size."""
        if nbytes != 0:
            raise _size_error(self.device, nbytes)
        self._check_open()
        pointer = _empty_address() if self.device.shares_host_memory else 0
        return PooledBuffer(self, pointer, 0, None)


def _size_error(device: Device, nbytes: int) -> ArgumentValueError:
    """Return the error for more bytes than an address can name, or fewer than none."""
    return ArgumentValueError(
        f"{safe_repr(nbytes)} bytes were requested on {device}",
        value=nbytes,
        limit="An allocation has at least 0 and fewer than 2**63 bytes",
        remedy="Check the shape, and how it was computed",
    )


def checked_size(device: Device, shape: tuple[int, ...], itemsize: int) -> int:
    """Return the bytes of an array; raise `ArgumentValueError` for more than can be addressed."""
    size = math.prod(shape) * itemsize
    if size >= _ABSURD_BYTES:
        raise _size_error(device, size)
    return size


_devices: dict[Device, DeviceMemory] = {}
_devices_lock = ForkSafeLock()


def device_memory(device: Device) -> DeviceMemory:
    """Return what the pools of a device share, made at the first call."""
    found = _devices.get(device)
    if found is None:
        with _devices_lock:
            found = _devices.get(device)
            if found is None:
                found = DeviceMemory(device)
                found.default = MemoryPool._of(found, "default", device.create_pool())
                _devices[device] = found
    return found


def shareable_pool(device: Device) -> MemoryPool:
    """Return the pool of a device with memory that other processes can open, made once.

    It is the default pool if they can open none.
    """
    memory = device_memory(device)
    if memory.shareable is None:
        with _devices_lock:
            if memory.shareable is None:
                backend = device.create_shareable_pool()
                memory.shareable = (
                    memory.default
                    if backend is None
                    else MemoryPool._of(memory, "shareable", backend)
                )
    return memory.shareable


def device_memories() -> tuple[DeviceMemory, ...]:
    """Return the memory of every device that was used."""
    return tuple(_devices.values())


def _after_fork_in_child() -> None:
    for memory in device_memories():
        # The lock may have been held by a thread that does not exist in the child.
        memory.lock = threading.RLock()
        memory._is_busy = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)


#: The active pools of this context, outermost first.
active_pools: contextvars.ContextVar[tuple[Allocator, ...]] = contextvars.ContextVar(
    "kerneldsl_pools", default=()
)


def allocate(
    device: Device, nbytes: int, stream: Any = None, form: Form | None = None
) -> PooledBuffer:
    """Allocate memory of a device from its active pool.

    Parameters
    ----------
    device : Device
        The device.
    nbytes : int
        The size; no memory is allocated for 0.
    stream : optional
        Stream that orders the use of the memory; by default the current one.
    form : tuple, optional
        Shape, strides and dtype of the array that will be all of the memory.

    Returns
    -------
    PooledBuffer
        At least 256-byte aligned, with undefined contents.

    Raises
    ------
    OutOfMemoryError
        If there is no memory left, even after unused memory was collected and freed.
    ArgumentValueError
        For a size that is negative or beyond 2**63 bytes.
    """
    memory = device_memory(device)
    for pool in reversed(active_pools.get()):
        if pool._memory is memory:
            return pool.allocate(nbytes, stream, form)
    return memory.default.allocate(nbytes, stream)


def memory_stats(device: DeviceLike | None = None) -> MemoryStatistics:
    """Return the statistics of all pools of a device, and its free memory.

    Parameters
    ----------
    device : str or Device, optional
        The device; by default the current one.

    Returns
    -------
    MemoryStatistics

    Examples
    --------
    >>> import kerneldsl as kd
    >>> x = kd.zeros(1000)
    >>> kd.memory_stats().in_use_bytes >= 8000
    True
    """
    from kerneldsl.memory.memory_statistics import MemoryStatistics

    device = chosen_device(device)
    memory = device_memory(device)
    pools = tuple(pool.stats() for pool in sorted(memory.pools, key=lambda pool: pool.number))
    free, total = device.memory_info() or (None, None)
    shared = memory.shared.copy().values()  # a finalizer may change it at any time
    with memory.lock:
        memory.forget_pools()
        counts = [memory.gone, *(pool._counts for pool in memory.pools)]
        return MemoryStatistics(
            device=str(device),
            total_bytes=total,
            free_bytes=free,
            in_use_bytes=memory.sums.in_use,
            reserved_bytes=sum(pool.reserved_bytes for pool in pools),
            peak_bytes=memory.sums.peak,
            largest_bytes=max(c.largest for c in counts),
            allocation_count=sum(c.allocations for c in counts),
            free_count=sum(c.frees for c in counts),
            hit_count=sum(c.hits for c in counts),
            pinned_bytes=sum(nbytes for kind, nbytes in shared if kind == "pinned"),
            managed_bytes=sum(nbytes for kind, nbytes in shared if kind == "managed"),
            pools=pools,
        )
