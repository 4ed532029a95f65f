"""The pool of a device that does not exist: what a driver's pool would hold is only counted.

What is freed stays reserved until it is trimmed, as the CUDA driver keeps it; but no address is
given out twice, so that a use after the free is an error and not luck.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kerneldsl.contract import Device, PoolBackend, SharedBuffer
from kerneldsl.errors import OutOfMemoryError
from targets.null.memory import ALIGNMENT, AddressSpace

__all__ = ["NullPool", "NullSharedBuffer", "Release"]


@dataclass(frozen=True, slots=True)
class Release:
    """One release that a driver would have ordered.

    Parameters
    ----------
    pointer, nbytes : int
        The memory.
    stream : object
        Its home stream.
    used_on : tuple
        What the release had to wait for beside it.
    """

    pointer: int
    nbytes: int
    stream: Any
    used_on: tuple[Any, ...]


class NullPool(PoolBackend):
    """A pool over the memory of a described device.

    `begin` is called with ``"allocate"`` before memory is taken, and raises what is to fail.
    """

    def __init__(self, space: AddressSpace, begin: Callable[[str], None]) -> None:
        self.device: Device = space.device
        #: Every release, oldest first.
        self.releases: list[Release] = []
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
        self.releases.append(Release(pointer, nbytes, stream, tuple(used_on)))
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
    """Host memory that the device reaches by an address of its own, or not at all."""

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
