"""Numba's types of argument kinds, tiles and packed views."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import types

from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.language.records import layout_of_name, record_name

if TYPE_CHECKING:
    from kerneldsl.language.packed_numbers import PackedNumbers

__all__ = [
    "NumbaTile",
    "PackedView",
    "constant_records",
    "element_type",
    "numba_class",
    "numba_type",
    "numba_types",
    "tuple_type",
]


class NumbaTile(types.Type):
    """A tile. Numba compiles none."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape = shape
        self.dtype = dtype
        super().__init__(name=f"Tile({shape}, {dtype})")


class PackedView(types.Type):
    """An array of words, looked at as one of the numbers in them.

    :mod:`kerneldsl.lowering.packed_views` registers it with Numba.
    """

    def __init__(self, words: types.Array, numbers: PackedNumbers) -> None:
        self.words = words
        self.numbers = numbers
        self.ndim = words.ndim
        self.dtype = element_type(numbers.dtype)
        super().__init__(name=f"packed({words}, {numbers.name})")

    @property
    def per_word(self) -> int:
        """Numbers in a word, a power of two."""
        return int(self.words.dtype.bitwidth) // self.numbers.bits


def _own(row: ElementType) -> types.Type:
    """Return Numba's own type of an element type."""
    return types.boolean if row.name == "bool" else getattr(types, row.name)


# Importing the modules of the others registers them with Numba, which takes a while.


def _narrow_float(row: ElementType) -> types.Type:
    from kerneldsl.lowering import narrow_floats

    return getattr(narrow_floats, row.name.upper())


def _record(row: ElementType) -> types.Type:
    from kerneldsl.lowering.records import record_type

    return record_type(row, element_type)


def _argument(row: ElementType) -> types.Type:
    from kerneldsl.lowering.records import argument_type

    return argument_type(row, element_type)


def _vector(row: ElementType) -> types.Type:
    from kerneldsl.language.structures import structure_type
    from kerneldsl.lowering.vectors import vector_type

    return structure_type(row.name) or vector_type(row, element_type)


def _time(row: ElementType) -> types.Type:
    from kerneldsl.lowering.times import time_type

    return time_type(row)


def _maker(row: ElementType) -> Callable[[ElementType], types.Type]:
    """Return what makes the Numba type of an element type: one for each kind of them."""
    if row.is_record:
        return _record
    if row.is_vector:
        return _vector
    if row.is_time:
        return _time
    return _narrow_float if row.is_narrow else _own


def element_type(dtype: str) -> types.Type:
    """Return the Numba type of an element type.

    The first call for a type may register its operations with Numba. Numba's compilers read what is
    registered when they are made. So call this before.

    Examples
    --------
    >>> element_type("bool"), element_type("uint8")
    (bool, uint8)
    """
    row = ELEMENT_TYPES[dtype]
    return _maker(row)(row)


def numba_class(value: Any) -> types.Type | None:
    """Return our Numba type of a class of narrow floats, such as ``np.float16``, or ``None``."""
    if value is types.float16:  # Numba's own, which it cannot compute with
        return element_type("float16")
    if not (isinstance(value, type) and issubclass(value, np.generic)):
        return None
    row = ELEMENT_TYPES.get(value.__name__)
    return element_type(row.name) if row is not None and row.is_narrow else None


def constant_records(value: Any) -> types.Type | None:
    """Return the type of a captured array of records, ``None`` for any other object.

    Nothing is known of where its bytes are.
    """
    if not isinstance(value, np.ndarray) or value.dtype.names is None:
        return None
    layout = layout_of_name(record_name(value.dtype)).packed()
    flags = value.flags
    order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
    return types.Array(element_type(layout.name), value.ndim, order, readonly=True, aligned=False)


def numba_type(kind: Kind) -> types.Type:
    """Return the Numba type of a kind.

    Arrays are mutable; those of packed records count as not aligned, and all others as aligned.

    Examples
    --------
    >>> numba_type(ArrayKind("float32", 2, "C"))
    Array(float32, 2, 'C', False, aligned=True)
    """
    if isinstance(kind, ScalarKind):
        return _argument(kind.element) if kind.element.is_record else element_type(kind.dtype)
    if isinstance(kind, ArrayKind):
        element = element_type(kind.dtype)
        return types.Array(element, kind.ndim, kind.layout, aligned=kind.element.is_aligned)
    return tuple_type([numba_type(element) for element in kind.elements], kind.names)


def tuple_type(elements: list[types.Type], names: tuple[str, ...]) -> types.BaseTuple:
    """Return the Numba type of a tuple, a named one if there are names."""
    return types.BaseTuple.from_types(elements, _named(names) if names else None)


@cache
def _named(names: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """Return a class of named tuples for Numba's type, by which it knows the members' names."""
    return namedtuple("named", names)


def numba_types(kinds: tuple[Kind, ...]) -> tuple[types.Type, ...]:
    """Return the Numba types of a specialization's arguments."""
    return tuple(numba_type(kind) for kind in kinds)
