"""Memory of a device: one piece of it, and the pool that pieces come from.

A target gives the primitives, :class:`PoolBackend`; what a pool promises on top of them (limits,
statistics, what happens when memory runs out, when freed memory is used again) is the core's, in
:mod:`kerneldsl.memory.pools`, and so the same on every target.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from kerneldsl.contract.device import Device
from kerneldsl.contract.locations import Location
from kerneldsl.utilities.observed import Observable, observed

__all__ = ["WHOLE_DEVICE", "Buffer", "PoolBackend", "SharedBuffer"]

#: Stands for every stream of the device, where memory was lent to others whose streams are unknown.
WHOLE_DEVICE: Final = "whole device"


class Buffer(ABC):
    """Memory of a device."""

    __slots__ = ()

    device: Device
    #: Where it is: an address, or a `BufferOffset` where the device's memory has none.
    pointer: Location
    nbytes: int


class SharedBuffer(Buffer):
    """Memory that the host reaches too: page-locked or managed; given back by `close`.

    What holds it calls `close` once, from a finalizer, when no array is left over it; work on the
    device may still use it. So `close` **must** leave the memory alone until everything that is on
    the device by then has finished, without waiting for that; and it **must not** raise.
    """

    __slots__ = ()

    #: Address on the host. `Buffer.pointer` is the address for kernels, 0 where they cannot reach
    #: the memory.
    host_pointer: int

    @abstractmethod
    def close(self) -> None:
        """Give the memory back."""


class PoolBackend(Observable, ABC):
    """Source of a pool's memory.

    The core calls one method at a time for each device, from any thread, but for `mark` and
    `close`, which may come at any time; and a finalizer that allocates may call `acquire` while the
    same thread is inside another method. A *stream* is ``None`` for
    the device's default stream, else a `DeviceStream` that lives at least until the call returns.

    Attributes
    ----------
    device : Device
        Whose memory.
    gives_out_at_once : bool
        Whether what is released in the default stream, and was used in no other, may be used there
        again at once. The core then keeps a few small blocks for itself, which it neither releases
        nor acquires meanwhile.
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
            Where it is: an address, or a `BufferOffset` where memory has no addresses. It is not 0.
        is_new : bool
            Whether the device had to give more memory for it.

        The location **must** be at least 256-byte aligned. **Must** raise `OutOfMemoryError` where
        there is no room; the core then collects, trims and asks once more. It is never asked for 0
        bytes.
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
            Other streams in which it was used, marks that `mark` has made, or `WHOLE_DEVICE`. An
            implementation **must not** give the memory out again before what is in all of these
            streams now, and what stood before the marks, has finished, and **must not** wait for
            that on the host where the device can order it.
        """

    @abstractmethod
    def reserved_bytes(self) -> int:
        """Return the bytes that the pool holds of the device, in use or kept for later."""

    @abstractmethod
    def trim(self, keep_bytes: int) -> None:
        """Give back to the device what is not in use, down to `keep_bytes` reserved.

        Memory whose last work has not finished yet **may** stay.
        """

    @abstractmethod
    def close(self) -> None:
        """Free all memory.

        **Must** keep memory that is in use until it is released. **Must not** raise.
        """

    def mark(self, stream: Any, earlier: Any) -> Any:
        """Return a mark of what is in a stream now, for `release`.

        Called for streams of other libraries, whose handles may be dead when the memory is
        released.

        Parameters
        ----------
        stream : object
            Whatever stands for a stream of this device.
        earlier : object or None
            The mark that was made last in the same stream for the same memory; **may** be reused,
            nobody else holds it.

        The default is right where everything has finished when a call returns.
        """
        return earlier
