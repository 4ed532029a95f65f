"""Locations in the memory of a device, which are addresses or bytes of buffers without addresses.

The core treats a location as opaque: it adds bytes to one, takes the bytes between two of one
buffer, and compares them. So copies, overlap and staging are the same for both.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.utilities.dataclasses import dataclass

__all__ = ["BufferOffset", "Location", "address", "alignment_number"]

#: An address as an int, or a `BufferOffset`; whichever the pools of a device give out.
Location: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class BufferOffset:
    """A byte of a buffer that has no address, as of WebGPU, Vulkan or Metal.

    Locations in one buffer are ordered by their offsets. No two buffers overlap: ranges of bytes in
    two buffers, which are compared by ``<`` alone, are disjoint.

    Parameters
    ----------
    buffer : object
        The target's handle; compared by identity.
    offset : int
        Bytes from the start of the buffer, which is aligned as `PoolBackend.acquire` says.

    Examples
    --------
    >>> buffer = object()
    >>> start = BufferOffset(buffer, 256)
    >>> (start + 64) - start, start < start + 64
    (64, True)
    """

    buffer: Any
    offset: int

    def __add__(self, nbytes: int) -> BufferOffset:
        return BufferOffset(self.buffer, self.offset + nbytes)

    def __sub__(self, other: BufferOffset) -> int:
        if self.buffer is not other.buffer:
            raise ValueError(f"no number of bytes lies between {self} and {other}")
        return self.offset - other.offset

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BufferOffset):
            return NotImplemented
        return self.buffer is other.buffer and self.offset == other.offset

    def __hash__(self) -> int:
        return hash((id(self.buffer), self.offset))

    def __lt__(self, other: Location) -> bool:
        return _order(self) < _order(other)

    def __gt__(self, other: Location) -> bool:
        return _order(self) > _order(other)

    def __repr__(self) -> str:
        return f"BufferOffset({self.buffer!r}, {self.offset})"


def _order(location: Location) -> tuple[int, int]:
    # Arrays without elements are at 0, in no buffer.
    if isinstance(location, BufferOffset):
        return id(location.buffer), location.offset
    return -1, location


def address(location: Location) -> int:
    """Return the address that a location is.

    Raises
    ------
    ArgumentTypeError
        If the device's memory has no addresses.
    """
    if isinstance(location, BufferOffset):
        raise ArgumentTypeError(
            f"byte {location.offset} of a buffer has no address",
            value=location,
            limit="The device passes memory by handles of buffers",
            remedy="Copy the array to the host: array.copy_to_host()",
        )
    return int(location)


def alignment_number(location: Location) -> int:
    """Return a number that small powers of two divide if they divide the location."""
    return location.offset if isinstance(location, BufferOffset) else int(location)
