"""The arrays of a launch, read from its flat values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from kerneldsl.contract.abi import ArrayParameters
from kerneldsl.contract.locations import BufferOffset, Location
from kerneldsl.language.kinds import ArrayKind
from kerneldsl.memory.strided import byte_bounds, contiguous_strides

__all__ = ["PassedArray", "passed_arrays"]


class PassedArray(NamedTuple):
    """An array as a launch passes it.

    Parameters
    ----------
    parameters : ArrayParameters
        Its kind, and which parameters pass it.
    location : Location
        Where its first element is.
    shape, strides : tuple of int
        Extent, and bytes from one element to the next, along each axis.
    """

    parameters: ArrayParameters
    location: Location
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def kind(self) -> ArrayKind:
        """Its dtype, rank and layout."""
        return self.parameters.kind

    @property
    def position(self) -> int:
        """Position of the argument that it is, or is in."""
        return self.parameters.position

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.parameters.item_bytes

    def is_same(self, other: PassedArray) -> bool:
        """Return whether both are one array: the same kind, location, shape and strides."""
        return self[1:] == other[1:] and self.kind == other.kind

    def byte_range(self) -> tuple[Location, Location]:
        """Return the first and past-the-last location; the same one twice for no elements."""
        return byte_bounds(self.location, self.shape, self.strides, self.itemsize)


def passed_arrays(arrays: Iterable[ArrayParameters], values: Sequence[Any]) -> list[PassedArray]:
    """Read arrays from the flat values of a launch.

    Parameters
    ----------
    arrays : iterable of ArrayParameters
        Where they are.
    values : sequence
        The flat values, in the order of :attr:`~kerneldsl.contract.abi.ParameterLayout.parameters`.
    """
    found = []
    for array in arrays:
        extents, strides, location = array.extents, array.strides, values[array.pointer]
        shape = tuple(values[extents.start : extents.stop])
        found.append(
            PassedArray(
                array,
                location if isinstance(location, BufferOffset) else int(location),
                shape,
                tuple(values[strides.start : strides.stop])
                if strides
                else contiguous_strides(shape, array.item_bytes, array.kind.layout),
            )
        )
    return found
