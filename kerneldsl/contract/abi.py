"""Calling convention: from a launch's arguments to a compiled kernel's parameters.

The layout is the same on every target and is part of what an ahead-of-time compiled file promises:

* a scalar is one parameter of its type (``bool`` is passed as ``uint8``, a complex number as two
  floats, real part first);
* a record by itself is its bytes, eight to a ``uint64``; the last one is filled up with zeros;
* an array is its data pointer, then its extent along each axis as ``int64``, then, only where its
  layout is "A", its stride along each axis in bytes as ``int64``; an array of rank 0 is a pointer;
* where a target binds buffers to numbered slots instead, the buffer of each array is in the next
  slot, and its offset there in bytes, as ``uint64``, stands for the pointer;
* a tuple is its elements, one after the other;
* a ``forall`` entry then takes its extents as ``int64``; a debug entry then takes a pointer to a
  fault record.

Every parameter is aligned to its own size, as the CUDA driver's parameter buffer requires.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kerneldsl.contract.locations import BufferOffset
from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind, leaf_kinds
from kerneldsl.language.reserved import RESERVED_PREFIX
from kerneldsl.utilities.cached_property import cached_property
from kerneldsl.utilities.dataclasses import dataclass
from kerneldsl.utilities.formatting import text_table

__all__ = [
    "EXPLICIT",
    "RECORD_WORD_BYTES",
    "ArrayParameters",
    "LaunchMode",
    "Parameter",
    "ParameterLayout",
    "SlotParameters",
    "array_parameters",
    "integer_parameters",
    "parameter_count",
]

#: Bytes of a record that one parameter passes.
RECORD_WORD_BYTES = 8


@dataclass(frozen=True, slots=True)
class LaunchMode:
    """Kinds of compiled entry: for ``kernel[grid, block]`` or for ``kernel.forall(*extent)``.

    Parameters
    ----------
    forall_ndim : int or None
        Rank of the extent under ``forall``, 1 to 3; ``None`` for an explicit launch.
    """

    forall_ndim: int | None = None

    @property
    def is_forall(self) -> bool:
        """True if the entry takes an extent and guards against threads beyond it."""
        return self.forall_ndim is not None


#: ``kernel[grid, block]``.
EXPLICIT = LaunchMode()


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a compiled entry.

    Parameters
    ----------
    name : str
        Such as ``x.data``, ``x.shape[0]``, ``a`` or ``z.imag``; what no argument gives has a
        reserved name, such as ``kd_extent[0]``.
    dtype : str
        A scalar dtype, or ``"pointer"``, or ``"offset"`` of an array in the buffer of its slot.
    offset : int
        Bytes from the start of the parameter buffer.
    """

    name: str
    dtype: str
    offset: int

    @property
    def nbytes(self) -> int:
        """Size in bytes; also the alignment."""
        return struct.calcsize(_format(self.dtype))

    @property
    def is_extent(self) -> bool:
        """True if it is an extent of ``forall``, which no argument gives."""
        return self.name.startswith(_EXTENT)


#: Names of the extents of ``forall``.
_EXTENT = f"{RESERVED_PREFIX}extent"


@dataclass(frozen=True, slots=True)
class ArrayParameters:
    """The parameters that pass one array, by their numbers in `ParameterLayout.parameters`.

    Parameters
    ----------
    kind : ArrayKind
        Dtype, rank and layout of the array.
    position : int
        Position of the argument that is the array, or the tuple that holds it.
    pointer : int
        Number of the data pointer.
    extents : range
        Numbers of the extents.
    strides : range
        Numbers of the strides; empty for a contiguous array: its strides are not passed.
    """

    kind: ArrayKind
    position: int
    pointer: int
    extents: range
    strides: range

    @property
    def numbers(self) -> range:
        """Numbers of all its parameters."""
        return range(self.pointer, self.strides.stop)

    @property
    def item_bytes(self) -> int:
        """Size of an element in bytes."""
        return self.kind.element.nbytes


class SlotParameters(NamedTuple):
    """The parameters of a launch with arrays that are passed in slots.

    Attributes
    ----------
    flat : bytes
        The parameter buffer.
    buffers : tuple
        The handle of each slot's buffer; ``None`` for an array without elements.
    """

    flat: bytes
    buffers: tuple[Any, ...]


@dataclass(frozen=True)
class ParameterLayout:
    """The parameters of a compiled entry, in order.

    Parameters
    ----------
    names : tuple of str
        The kernel's parameter names.
    kinds : tuple of Kind
        Their kinds.
    mode : LaunchMode
        Adds the extents under ``forall``.
    debug : bool
        Adds the pointer to the fault record.
    has_slots : bool
        Whether each array is passed as a buffer in a slot and an offset instead of an address;
        `Compiler.has_slots` says it.
    """

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    mode: LaunchMode = EXPLICIT
    debug: bool = False
    has_slots: bool = False

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        """Every parameter, with its place in the buffer."""
        placed: list[Parameter] = []
        offset = 0
        for name, dtype in self._flat():
            size = struct.calcsize(_format(dtype))
            offset = -(-offset // size) * size
            placed.append(Parameter(name, dtype, offset))
            offset += size
        return tuple(placed)

    @cached_property
    def arrays(self) -> tuple[ArrayParameters, ...]:
        """Every array, those in tuples included, with its position among the parameters."""
        return array_parameters(self.kinds)

    @cached_property
    def integers(self) -> tuple[int, ...]:
        """The numbers of the int64 that are scalars, those in tuples included."""
        return integer_parameters(self.kinds)

    def _flat(self) -> Iterator[tuple[str, str]]:
        # Parameters without an argument have reserved names, which no parameter of a kernel can
        # have.
        for name, kind in zip(self.names, self.kinds, strict=True):
            yield from _flatten(name, kind, "offset" if self.has_slots else "pointer")
        for axis in range(self.mode.forall_ndim or 0):
            yield f"{_EXTENT}[{axis}]", "int64"
        if self.debug:
            yield f"{RESERVED_PREFIX}fault.data", "pointer"

    @cached_property
    def struct_format(self) -> str:
        """Format for :mod:`struct`, with explicit padding and native byte order."""
        text, position = "=", 0
        for parameter in self.parameters:
            if parameter.offset > position:
                text += f"{parameter.offset - position}x"
            text += _format(parameter.dtype)
            position = parameter.offset + parameter.nbytes
        return text

    @cached_property
    def packer(self) -> struct.Struct:
        """Packs the flat values of a launch into the parameter buffer."""
        return struct.Struct(self.struct_format)

    @cached_property
    def slots(self) -> dict[int, int]:
        """Slot of each array, by the number of its offset; slots are numbered from 0 in order."""
        numbers = (array.pointer for array in self.arrays)
        return {number: slot for slot, number in enumerate(numbers)} if self.has_slots else {}

    @property
    def pack(self) -> Callable[..., bytes | SlotParameters]:
        """The function that makes of flat values what `Executable.launch` takes."""
        return self._pack_slots if self.has_slots else self.packer.pack

    def _pack_slots(self, *values: Any) -> SlotParameters:
        flat, buffers = list(values), []
        for number in self.slots:
            location = flat[number]
            is_empty = not isinstance(location, BufferOffset)  # an array without elements
            buffers.append(None if is_empty else location.buffer)
            flat[number] = 0 if is_empty else location.offset
        return SlotParameters(self.packer.pack(*flat), tuple(buffers))

    @property
    def nbytes(self) -> int:
        """Size of the parameter buffer in bytes."""
        return self.packer.size

    def describe(self) -> str:
        """Return a table of the parameters, as it is beside an ahead-of-time compiled file."""
        rows = ((i, p.offset, p.dtype, p.name) for i, p in enumerate(self.parameters))
        return text_table(("#", "offset", "type", "parameter"), rows)


def array_parameters(kinds: Iterable[Kind]) -> tuple[ArrayParameters, ...]:
    """Find the parameters of each array, those in tuples included, in the order of parameters.

    Parameters
    ----------
    kinds : iterable of Kind
        Kinds of the arguments.

    Examples
    --------
    >>> from kerneldsl.language.signatures import parse_signature
    >>> vector, matrix = array_parameters(parse_signature("float32[::1], (int32, float64[:, :])"))
    >>> vector.position, vector.pointer, vector.extents, vector.strides
    (0, 0, range(1, 2), range(2, 2))
    >>> matrix.position, matrix.pointer, matrix.extents, matrix.strides
    (1, 3, range(4, 6), range(6, 8))
    """
    found: list[ArrayParameters] = []
    number = 0
    for position, kind in enumerate(kinds):
        for leaf in leaf_kinds((kind,)):
            end = number + parameter_count(leaf)
            if isinstance(leaf, ArrayKind):
                extents = range(number + 1, number + 1 + leaf.ndim)
                strides = range(extents.stop, end)
                found.append(ArrayParameters(leaf, position, number, extents, strides))
            number = end
    return tuple(found)


def integer_parameters(kinds: Iterable[Kind]) -> tuple[int, ...]:
    """Find the parameters that pass int64 scalars, those in tuples included, by their numbers.

    Examples
    --------
    >>> from kerneldsl.language.signatures import parse_signature
    >>> integer_parameters(parse_signature("int64, float32[:], (int32, int64), float64"))
    (0, 5)
    """
    found: list[int] = []
    number = 0
    for leaf in leaf_kinds(tuple(kinds)):
        if isinstance(leaf, ScalarKind) and leaf.dtype == "int64":
            found.append(number)
        number += parameter_count(leaf)
    return tuple(found)


def parameter_count(kind: Kind) -> int:
    """Return how many parameters pass an argument of a kind."""
    return sum(1 for _ in _flatten("", kind))


def _format(dtype: str) -> str:
    """Return the format of :mod:`struct` for a parameter."""
    return "Q" if dtype in ("pointer", "offset") else ELEMENT_TYPES[dtype].struct_code


def _flatten(name: str, kind: Kind, data: str = "pointer") -> Iterator[tuple[str, str]]:
    if isinstance(kind, ScalarKind):
        if kind.element.is_complex:
            yield f"{name}.real", kind.element.arithmetic
            yield f"{name}.imag", kind.element.arithmetic
        elif kind.element.is_record:
            for first in range(0, kind.element.nbytes, RECORD_WORD_BYTES):
                yield f"{name}.bytes[{first}]", "uint64"
        else:
            yield name, kind.dtype
    elif isinstance(kind, ArrayKind):
        yield f"{name}.data", data
        for axis in range(kind.ndim):
            yield f"{name}.shape[{axis}]", "int64"
        if kind.layout == "A":
            for axis in range(kind.ndim):
                yield f"{name}.strides[{axis}]", "int64"
    else:
        for i, element in enumerate(kind.elements):
            yield from _flatten(f"{name}[{i}]", element, data)
