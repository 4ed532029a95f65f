"""Values of many threads at once: an array with one element for each lane, or a number for all.

What depends on data that is not there is `UNKNOWN`; a condition with only a known bound is a
:class:`Maybe`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from kerneldsl.language.kinds import ScalarKind
from kerneldsl.language.types import Type
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "UNKNOWN",
    "Maybe",
    "Memory",
    "Part",
    "Space",
    "Unknown",
    "Value",
    "View",
    "as_dtype",
    "choose",
    "computed",
    "possible",
]

#: A value of some lanes: known numbers, a view, a tuple of values, a module or a function.
Value: TypeAlias = Any


class Unknown(enum.Enum):
    """Type of what depends on data."""

    UNKNOWN = "data"


UNKNOWN: Final = Unknown.UNKNOWN


@dataclass(frozen=True, slots=True)
class Maybe:
    """A condition that may hold for some lanes, depending on data, and holds for no others."""

    possible: Any


class Space(enum.Enum):
    """Kind of memory."""

    GLOBAL = "global"
    SHARED = "shared"
    LOCAL = "local"
    CONSTANT = "constant"


@dataclass(eq=False, slots=True)
class Memory:
    """An array that a kernel touches."""

    #: Name of the array in the kernel; for an array that the kernel makes, that of its variable.
    name: str
    #: The memory space.
    space: Space
    #: Dtype of the elements, a name of `ELEMENT_TYPES`.
    dtype: str
    #: Extents of the array.
    shape: tuple[int, ...]
    #: Bytes from an element to the next along each axis.
    strides: tuple[int, ...]
    #: Bytes of an element.
    itemsize: int
    #: Address of its first element; those of different arrays are far apart.
    base: int = 0
    #: Contents, if they are known and the kernel does not write them.
    contents: NDArray[Any] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes of its elements together."""
        return self.itemsize * int(np.prod(self.shape, dtype=np.int64))


class Part(NamedTuple):
    """A field of the records of an array, or all of them."""

    #: Bytes of a record of the array.
    record_bytes: int
    #: Bytes from the record's first to the field's.
    offset: int
    #: Whether one access reads it. False for packed dtypes and whole records.
    is_aligned: bool


@dataclass(frozen=True, eq=False, slots=True)
class View:
    """Elements of an array that a name stands for.

    `offset` is in bytes from the array's first element: one number, or one for each lane. `chosen`
    holds the indices that made the view, one for each axis that is gone. It is ``None`` if the axes
    are no longer those of the array. `part` is set for a field of records.
    """

    memory: Memory
    offset: Any
    shape: tuple[Any, ...]
    strides: tuple[int, ...]
    itemsize: int
    chosen: tuple[Any, ...] | None = ()
    is_unknown: bool = False
    part: Part | None = None


def as_dtype(value: Value, kind: Type | None) -> Value:
    """Convert a value as compiled code does; what is no number stays as it is."""
    if isinstance(value, Maybe):
        return UNKNOWN
    if not isinstance(kind, ScalarKind) or not _are_numbers(value):
        return value
    try:
        dtype = np.dtype(kind.dtype)
    except (TypeError, ValueError):  # a record, or a float that NumPy does not have
        return value
    if isinstance(value, int) and dtype.kind in "iu" and not isinstance(value, bool):
        bits = 8 * dtype.itemsize
        value &= (1 << bits) - 1
        if dtype.kind == "i" and value >> (bits - 1):
            value -= 1 << bits
        return dtype.type(value)
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def _are_numbers(*values: Value) -> bool:
    kinds = (bool, int, float, complex, np.generic, np.ndarray)
    return all(isinstance(value, kinds) for value in values)


def computed(called: Callable[..., Any] | None, *arguments: Value) -> Value:
    """Return what a function of NumPy gives; a division by zero in one lane is no error here."""
    if called is None or not _are_numbers(*arguments):
        return UNKNOWN
    with np.errstate(all="ignore"):
        try:
            return called(*arguments)
        except (ArithmeticError, TypeError, ValueError):
            return UNKNOWN


def possible(condition: Value) -> tuple[Any, bool]:
    """Return for which lanes a condition may hold, and whether it depends on data."""
    if isinstance(condition, Maybe):
        return condition.possible, True
    if not _are_numbers(condition):
        return True, True
    return np.asarray(condition).astype(bool)[()], False


def choose(mask: Any, new: Value, old: Value) -> Value:
    """Return the new value for the lanes of a mask, the old one for others."""
    if new is old or mask is True:
        return new
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return tuple(choose(mask, a, b) for a, b in zip(new, old, strict=True))
    if isinstance(new, View):
        return new
    return np.where(mask, new, old) if _are_numbers(new, old) else UNKNOWN
