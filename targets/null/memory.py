"""Memory of a device that does not exist: host bytes with made-up addresses.

Every access goes through a table of allocations. So an access beyond an allocation, to freed memory
or through a host address is always an error. Addresses are never given out twice, and are in a
range without memory of a process. Fresh memory holds the byte 0xCD. The pool only counts the memory
that a driver's pool would hold: freed memory stays reserved until it is trimmed.
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from kerneldsl.contract import Device, PoolBackend, SharedBuffer
from kerneldsl.errors import DriverError, OutOfMemoryError
from kerneldsl.utilities.dataclasses import dataclass
from targets.cuda.driver.codes import DRIVER_CODES
from targets.cuda.driver.errors import compose_error

__all__ = ["ALIGNMENT", "AddressSpace", "NullLockedBuffer", "NullPool", "NullSharedBuffer"]

#: Every address is a multiple of it, as the CUDA driver's are.
ALIGNMENT = 256
_POISON = 0xCD
#: First address: address spaces begin above the 47-bit user space, one TiB apart.
_FIRST_BASE = 1 << 52
_SPACING = 1 << 40
_serial = itertools.count()


@dataclass
class _Allocation:
    address: int
    nbytes: int
    #: Made when it is first touched, so that large allocations cost nothing.
    data: Any = None
    #: Address of mapped host memory; it takes none of the device.
    mapped_from: int = 0

    @property
    def end(self) -> int:
        return self.address + self.nbytes

    def host_address(self) -> int:
        if self.mapped_from:
            return self.mapped_from
        if self.data is None:
            self.data = ctypes.create_string_buffer(self.nbytes)
            ctypes.memset(self.data, _POISON, self.nbytes)
        return ctypes.addressof(self.data)


class AddressSpace:
    """The memory of one described device.

    The device's ``extra["total_memory_bytes"]`` is how much there is; without it there is no limit.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self._capacity: int | None = device.extra.get("total_memory_bytes")
        self._base = _FIRST_BASE + next(_serial) * _SPACING
        self._next = self._base
        # Reentrant, because a finalizer may allocate or free in the middle of another call.
        self._lock = threading.RLock()
        self._starts: list[int] = []
        self._live: dict[int, _Allocation] = {}
        self._freed: deque[tuple[int, int]] = deque(maxlen=4096)
        #: Freed bytes that pools keep.
        self._cached_bytes = 0

    def __contains__(self, address: int) -> bool:
        return self._base <= address < self._base + _SPACING

    @property
    def live_bytes(self) -> int:
        """Bytes that are allocated now."""
        with self._lock:
            return self._used()

    @property
    def live_count(self) -> int:
        """Number of allocations that are live now."""
        with self._lock:
            return len(self._live)

    def _used(self) -> int:
        return sum(a.nbytes for a in self._live.values() if not a.mapped_from)

    def _release(self, address: int) -> int:
        """Forget an allocation, and return its size; 0 if there is none."""
        if address not in self._live:
            return 0
        self._starts.pop(bisect.bisect_left(self._starts, address))
        allocation = self._live.pop(address)
        self._freed.append((address, allocation.nbytes))
        return allocation.nbytes

    def free_bytes(self) -> int | None:
        """Return the free bytes; ``None`` if there is no limit."""
        with self._lock:
            return (
                None
                if self._capacity is None
                else self._capacity - self._used() - self._cached_bytes
            )

    def allocate(self, nbytes: int, *, from_reserve: int = 0) -> int:
        """Return the address of fresh memory; 0 for no bytes.

        `from_reserve` bytes of it come from what a pool has kept.

        Raises `OutOfMemoryError` where the described device has no room for it.
        """
        if nbytes == 0:
            return 0
        with self._lock:
            free = self.free_bytes()
            if free is not None and nbytes - from_reserve > free:
                raise OutOfMemoryError(
                    f"Could not allocate {nbytes} bytes on {self.device}",
                    code=2,
                    name="CUDA_ERROR_OUT_OF_MEMORY",
                    limit=f"{free} of {self._capacity} bytes are free",
                    remedy="Free device arrays, or use smaller ones",
                    doing=f"allocate {nbytes} bytes on {self.device}",
                )
            self._cached_bytes -= from_reserve
            return self._place(_Allocation(self._next, nbytes))

    def adopt(self, host_address: int, nbytes: int) -> int:
        """Return an address by which kernels reach memory of the host, until it is freed."""
        with self._lock:
            return self._place(_Allocation(self._next, nbytes, mapped_from=host_address))

    def _place(self, allocation: _Allocation) -> int:
        address = allocation.address = self._next
        # At least one unused alignment unit is between two allocations.
        self._next += (-(-allocation.nbytes // ALIGNMENT) + 1) * ALIGNMENT
        self._live[address] = allocation
        self._starts.append(address)
        return address

    def give_back(self, nbytes: int) -> None:
        """Let the device have so many bytes again that a pool has kept."""
        with self._lock:
            self._cached_bytes -= nbytes

    def free(self, address: int, *, keep: bool = False) -> None:
        """Give memory back; `keep` its bytes for the pool that it came from.

        Raises `DriverError` where the address is not the start of a live allocation: it was freed
        before, or never made.
        """
        with self._lock:
            nbytes = self._release(address)
            if nbytes:
                self._cached_bytes += nbytes if keep else 0
                return
        raise _error(
            f"Could not free {address:#x} on {self.device}: {self._describe(address)}",
            1,
            "CUDA_ERROR_INVALID_VALUE",
            "Free each allocation once, by its own address",
        )

    def check(self, address: int, nbytes: int, doing: str) -> None:
        """Raise `DriverError` unless `nbytes` at `address` lie within one live allocation."""
        if nbytes:
            with self._lock:
                self._find(address, nbytes, doing)

    def read(self, address: int, host: int, nbytes: int) -> None:
        """Copy device bytes to a host address."""
        with self._lock:
            ctypes.memmove(host, self._host(address, nbytes, "copy to the host"), nbytes)

    def write(self, address: int, host: int, nbytes: int) -> None:
        """Copy bytes of a host address to the device."""
        with self._lock:
            ctypes.memmove(self._host(address, nbytes, "copy from the host"), host, nbytes)

    def move(self, destination: int, source: int, nbytes: int) -> None:
        """Copy within the device; the ranges may overlap."""
        with self._lock:
            to = self._host(destination, nbytes, "copy within the device (destination)")
            come_from = self._host(source, nbytes, "copy within the device (source)")
            ctypes.memmove(to, come_from, nbytes)

    def _host(self, address: int, nbytes: int, doing: str) -> int:
        allocation = self._find(address, nbytes, doing)
        return allocation.host_address() + address - allocation.address

    def _find(self, address: int, nbytes: int, doing: str) -> _Allocation:
        place = bisect.bisect_right(self._starts, address) - 1
        if place >= 0:
            allocation = self._live[self._starts[place]]
            if address + nbytes <= allocation.end:
                return allocation
        raise _error(
            f"Could not {doing}: {nbytes} bytes at {address:#x} on {self.device} are not "
            f"allocated; {self._describe(address)}",
            700,
            "CUDA_ERROR_ILLEGAL_ADDRESS",
            None,
        )

    def _describe(self, address: int) -> str:
        if address not in self:
            return "the address belongs to no allocation of this device"
        place = bisect.bisect_right(self._starts, address) - 1
        if place >= 0:
            nearest = self._live[self._starts[place]]
            offset = address - nearest.address
            if offset < nearest.nbytes + ALIGNMENT:
                return f"it is byte {offset} of an allocation of {nearest.nbytes} bytes"
        for start, nbytes in reversed(self._freed):
            if start <= address < start + nbytes:
                return f"it is byte {address - start} of {nbytes} bytes that were freed"
        return "nothing was ever allocated there"


def _error(what: str, code: int, name: str, remedy: str | None) -> DriverError:
    # The error is found before anything has run, so this device stays usable even after fatal ones.
    return compose_error(
        DRIVER_CODES[code]._replace(is_fatal=False),
        what.removeprefix("Could not "),
        limit=f"A driver would answer {name}",
        remedy=remedy,
    )


@dataclass(frozen=True, slots=True)
class _Release:
    """One release that a driver would have ordered."""

    #: The memory.
    pointer: int
    nbytes: int
    #: Home stream of the memory.
    stream: Any
    #: Other streams that the release had to wait for.
    used_on: tuple[Any, ...]


class NullPool(PoolBackend):
    """A pool over the memory of a described device.

    `begin` is called with ``"allocate"`` before memory is taken, and raises what is to fail.
    """

    def __init__(self, space: AddressSpace, begin: Callable[[str], None]) -> None:
        self.device: Device = space.device
        #: Every release, oldest first.
        self.releases: list[_Release] = []
        self._space = space
        self._begin = begin
        self._in_use = 0
        self._unused = 0
        self._is_closed = False

    def acquire(self, nbytes: int, stream: Any) -> tuple[int, bool]:
        self._begin("allocate")
        reused = min(self._unused, nbytes)
        pointer = self._space.allocate(nbytes, from_reserve=reused)
        self._unused -= reused
        self._in_use += nbytes
        return pointer, reused < nbytes

    def release(self, pointer: int, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        self.releases.append(_Release(pointer, nbytes, stream, tuple(used_on)))
        self._space.free(pointer, keep=not self._is_closed)
        self._in_use -= nbytes
        if not self._is_closed:
            self._unused += nbytes

    def mark(self, stream: Any, earlier: Any) -> Any:
        return ("mark", stream)

    def reserved_bytes(self) -> int:
        return self._in_use + self._unused

    def trim(self, keep_bytes: int) -> None:
        surplus = min(max(self.reserved_bytes() - keep_bytes, 0), self._unused)
        self._unused -= surplus
        self._space.give_back(surplus)

    def close(self) -> None:
        self._is_closed = True
        self.trim(0)


class NullSharedBuffer(SharedBuffer):
    """Host memory that the device reaches by its own address, or not at all."""

    _memory: Any
    __slots__ = ("_memory", "_space", "device", "host_pointer", "nbytes", "pointer")

    def __init__(self, space: AddressSpace, nbytes: int, *, has_pointer: bool) -> None:
        self.device = space.device
        self.nbytes = nbytes
        self._space = space
        try:
            self._memory = ctypes.create_string_buffer(nbytes + ALIGNMENT)
        except MemoryError as error:
            raise OutOfMemoryError(
                f"Could not allocate {nbytes} bytes of host memory for {space.device}",
                code=2,
                name="CUDA_ERROR_OUT_OF_MEMORY",
                limit="The host has no room for it",
                remedy="Use smaller arrays",
                doing=f"allocate {nbytes} bytes of host memory for {space.device}",
            ) from error
        start = ctypes.addressof(self._memory)
        self.host_pointer = -(-start // ALIGNMENT) * ALIGNMENT
        self.pointer = space.adopt(self.host_pointer, nbytes) if has_pointer else 0

    def close(self) -> None:
        if self.pointer:
            self._space.free(self.pointer)


class NullLockedBuffer(NullSharedBuffer):
    """Host memory of another owner that the device reaches by its own address."""

    __slots__ = ()

    def __init__(self, space: AddressSpace, pointer: int, nbytes: int, owner: Any) -> None:
        self.device, self.nbytes, self.host_pointer = space.device, nbytes, pointer
        self._space, self._memory = space, owner
        self.pointer = space.adopt(pointer, nbytes)
