"""Memory of a device: one piece of it, and the pool that pieces come from.

A target gives the primitives, :class:`PoolBackend`; what a pool promises on top of them (limits,
statistics, what happens when memory runs out, when freed memory is used again) is the core's, in
:mod:`kerneldsl.runtime.pools`, and so the same on every target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from kerneldsl.target.device import Device

__all__ = ["Buffer", "PoolBackend"]


class Buffer(ABC):
    """Memory of a device, freed when the object goes."""

    device: Device
    #: Address on the device.
    pointer: int
    nbytes: int


class PoolBackend(ABC):
    """Where the memory of one pool comes from.

    Calls may come from any thread, several at a time.
    """

    device: Device

    @abstractmethod
    def acquire(self, nbytes: int, stream: Any) -> int:
        """Return the address of memory that may be used by what is put into `stream` from now on.

        **Must** be at least 256-byte aligned, **must** raise `OutOfMemoryError` where there is no
        room (the core then collects, trims and asks once more) and **must not** be called with 0
        bytes.
        """

    @abstractmethod
    def release(self, pointer: int, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        """Take memory back.

        Parameters
        ----------
        pointer, nbytes : int
            As acquired.
        stream : object
            The stream it was acquired in.
        used_on : sequence
            Other streams in which it was used. An implementation **must not** give the memory out
            again before what is in all of these streams now has finished, and **must not** wait
            for that on the host where the device can order it.
        """

    @abstractmethod
    def reserved_bytes(self) -> int:
        """Bytes that the pool holds of the device, in use or kept for later."""

    @abstractmethod
    def trim(self, keep_bytes: int) -> None:
        """Give back to the device what is not in use, down to `keep_bytes` reserved."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back; **must** leave memory that is still in use alone until it is
        released."""
