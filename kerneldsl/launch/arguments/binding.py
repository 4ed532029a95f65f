"""Binding of a launch's arguments: a :class:`Binding`, its arrays, and codes for kinds.

Codes are small ints that stand for interned kinds, because hashing a tuple of ints costs a launch
a tenth of what hashing kinds costs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kerneldsl.contract import Device
from kerneldsl.contract.abi import ArrayParameters, array_parameters, integer_parameters
from kerneldsl.contract.locations import BufferOffset, Location
from kerneldsl.errors import ArgumentError, ArgumentTypeError
from kerneldsl.language.element_types import numpy_dtype
from kerneldsl.language.kinds import ArrayKind, Kind
from kerneldsl.memory.strided import byte_bounds, contiguous_strides
from kerneldsl.utilities.locks import ForkSafeLock

__all__ = [
    "Binding",
    "PassedArray",
    "Reader",
    "Refused",
    "bits_of",
    "code_of",
    "kinds_of",
    "passed_arrays",
    "value_of",
]

_kinds: list[Kind] = []
_codes: dict[Kind, int] = {}
_arrays: dict[tuple[int, ...], tuple[ArrayParameters, ...]] = {}
_integers: dict[tuple[int, ...], tuple[int, ...]] = {}
_kinds_lock = ForkSafeLock()


def code_of(kind: Kind) -> int:
    """Return the code that stands for a kind in this process."""
    code = _codes.get(kind)
    if code is None:
        with _kinds_lock:
            code = _codes.get(kind)
            if code is None:
                code = len(_kinds)
                _kinds.append(kind)
                _codes[kind] = code
    return code


def kinds_of(codes: tuple[int, ...]) -> tuple[Kind, ...]:
    """Return the kinds that codes stand for."""
    return tuple(_kinds[code] for code in codes)


def bits_of(value: np.generic) -> int:
    """Return the bits of a scalar, as one is passed that :mod:`struct` has no format for."""
    return int.from_bytes(value.tobytes(), sys.byteorder)


def value_of(bits: int, dtype: str) -> float:
    """Return the value of a real number that was passed as its bits."""
    found = numpy_dtype(dtype)
    return float(np.frombuffer(bits.to_bytes(found.itemsize, sys.byteorder), found)[0])


class Refused(Exception):
    """An argument that cannot be taken, before it is known which one it is."""

    def __init__(
        self,
        what: str,
        *,
        limit: str | None = None,
        remedy: str | None = None,
        kind: type[ArgumentError] = ArgumentTypeError,
    ) -> None:
        super().__init__(what)
        self.what = what
        self.limit = limit
        self.remedy = remedy
        self.kind = kind
        self.path = ""


class Binding:
    """The arguments of one launch, read.

    Attributes
    ----------
    codes : tuple of int
        Codes of their kinds.
    given : tuple of int
        The same before a signature converted them.
    is_assumed : bool
        Whether the kinds alone are known, as the text of a signature says them.
    values : list
        The flat values, as `ParameterLayout.packer` takes them.
    device : Device or None
        Where the device arrays live.
    host : list of (int, ndarray)
        Arrays in host memory, with the index of their pointer in `values`.
    read_only : tuple of int
        Indices of the pointers of arrays that must not be written.
    streams : tuple of int
        Handles of the streams in which other libraries' arguments were made.
    keep : tuple
        What must live until the launch has been made.
    """

    # Most launches have none of these, and five empty objects would cost a sixth of a launch.
    codes: tuple[int, ...] = ()
    given: tuple[int, ...] = ()
    is_assumed: bool = False
    device: Device | None = None
    read_only: tuple[int, ...] = ()
    streams: tuple[int, ...] = ()
    keep: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.host: list[tuple[int, np.ndarray[Any, Any]]] = []

    @property
    def arrays(self) -> tuple[ArrayParameters, ...]:
        """Position of each array among `values`."""
        arrays = _arrays.get(self.codes)
        if arrays is None:
            arrays = _arrays[self.codes] = array_parameters(kinds_of(self.codes))
        return arrays

    @property
    def integers(self) -> list[int]:
        """The values of the int64 scalars, those in tuples included."""
        numbers = _integers.get(self.codes)
        if numbers is None:
            numbers = _integers[self.codes] = integer_parameters(kinds_of(self.codes))
        return [self.values[number] for number in numbers]

    def passed_arrays(self) -> list[PassedArray]:
        """Return the arrays among the arguments, as `values` describe them."""
        return passed_arrays(self.arrays, self.values)


#: Appends the values of an argument to a binding, and returns the code of its kind.
Reader: TypeAlias = Callable[[Any, Binding], int]


class PassedArray(NamedTuple):
    """An array as a launch passes it."""

    #: The array's kind, and the parameters that pass it.
    parameters: ArrayParameters
    #: Location of the first element in memory.
    location: Location
    #: Extent, and bytes from one element to the next, along each axis.
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def kind(self) -> ArrayKind:
        """Kind of the array: dtype, rank and layout."""
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

    - `arrays`: their places.
    - `values`: the flat values, in the order of
      :attr:`~kerneldsl.contract.abi.ParameterLayout.parameters`.
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
