"""Memory of a device: one piece of it, and the pool that pieces come from.

A target implements the primitives, :class:`PoolBackend`. The core, in
:mod:`kerneldsl.memory.pools`, implements the rest for all targets: limits, statistics, the steps
when memory runs out, and the reuse of freed memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from kerneldsl.contract.device import Device
from kerneldsl.contract.locations import Location
from kerneldsl.utilities.observed import Observable, observed

__all__ = ["WHOLE_DEVICE", "Buffer", "PoolBackend", "SharedBuffer"]

#: Represents all streams of the device, for memory that was passed to other libraries.
WHOLE_DEVICE: Final = "whole device"


class Buffer(ABC):
    """Memory of a device."""

    __slots__ = ()

    device: Device
    #: Location of the memory: an address, or a `BufferOffset` if the device's memory has no
    #: addresses.
    pointer: Location
    nbytes: int


class SharedBuffer(Buffer):
    """Memory that the host can access, too: page-locked or managed; freed by `close`.

    Its owner calls `close` once, from a finalizer, when no array uses the memory any more. Work on
    the device may still use it. So `close` **must not** free the memory before all earlier work on
    the device has finished, and **must not** wait for that. It **must not** raise.
    """

    __slots__ = ()

    #: Address on the host. `Buffer.pointer` is the address for kernels, or 0 if they cannot access
    #: the memory.
    host_pointer: int

    @abstractmethod
    def close(self) -> None:
        """Give the memory back."""


class PoolBackend(Observable, ABC):
    """Source of a pool's memory.

    For each device, the core calls one method at a time, from any thread. There are two exceptions.
    `mark` and `close` may be called at any time. A finalizer that allocates may call `acquire`
    while the same thread is inside another method. A *stream* is ``None`` for the device's default
    stream, else a `DeviceStream` that exists at least until the call returns.

    Attributes
    ----------
    device : Device
        The device of the memory.
    gives_out_at_once : bool
        Whether memory that was used only in the default stream, and is released there, may be
        reused there immediately. The core then caches a few small blocks, without releasing and
        acquiring them.
    """

    device: Device
    gives_out_at_once = False

    @observed("device memory")
    @abstractmethod
    def acquire(self, nbytes: int, stream: Any) -> tuple[Location, bool]:
        """Take memory that may be used by what is put into `stream` from now on.

        Returns
        -------
        location : Location
            An address, or a `BufferOffset` if memory has no addresses. It is not 0.
        is_new : bool
            Whether the pool had to request more memory from the device.

        The location **must** be at least 256-byte aligned. **Must** raise `OutOfMemoryError` if
        there is too little memory; the core then collects, trims and calls it once more. It is
        never called for 0 bytes.
        """

    @abstractmethod
    def release(self, pointer: Location, nbytes: int, stream: Any, used_on: Sequence[Any]) -> None:
        """Take memory back; may be called by a finalizer, at any time and from any thread.

        Parameters
        ----------
        pointer, nbytes : int
            As acquired.
        stream : object
            The stream it was acquired in.
        used_on : sequence
            Other streams in which it was used, marks that `mark` has made, or `WHOLE_DEVICE`. The
            memory **must not** be reused before the current work in these streams, and the work
            before the marks, has finished. The host **must not** wait for that if the device can
            order it.
        """

    @abstractmethod
    def reserved_bytes(self) -> int:
        """Return the bytes that the pool has reserved on the device, in use or cached."""

    @abstractmethod
    def trim(self, keep_bytes: int) -> None:
        """Return unused memory to the device, down to `keep_bytes` reserved.

        Memory with unfinished work **may** stay reserved.
        """

    @abstractmethod
    def close(self) -> None:
        """Free all memory.

        **Must** keep memory that is in use until it is released. **Must not** raise.
        """

    def mark(self, stream: Any, earlier: Any) -> Any:
        """Return a mark of what is in a stream now, for `release`.

        Called for streams of other libraries: their handles may be invalid when the memory is
        released.

        Parameters
        ----------
        stream : object
            Any representation of a stream of this device.
        earlier : object or None
            The previous mark in the same stream for the same memory. It **may** be reused; nothing
            else refers to it.

        The default is right where everything has finished when a call returns.
        """
        return earlier
