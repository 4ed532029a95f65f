"""Types of a kernel's values, as data, without Numba.

An argument of a kernel has a *kind* (:mod:`kerneldsl.language.kinds`). A value inside the kernel
has a *type*. For a scalar or an array the type is its kind; the classes here are for values that
cannot be arguments. Types are frozen, compare by value and print as in Numba's signatures.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from kerneldsl.language.kinds import ArrayKind, ScalarKind
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "BOOL",
    "NONE",
    "STRING",
    "DtypeType",
    "FunctionType",
    "NoneType",
    "OtherType",
    "RangeType",
    "SliceType",
    "StringType",
    "TileType",
    "TupleType",
    "Type",
]


@dataclass(frozen=True, slots=True)
class NoneType:
    """Type of ``None``, and of a call that returns nothing."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class StringType:
    """A string, which a kernel can only print."""

    def __str__(self) -> str:
        return "str"


@dataclass(frozen=True, slots=True)
class SliceType:
    """A slice such as ``1:n``."""

    #: Whether the slice has a step that may differ from 1.
    has_step: bool = False

    def __str__(self) -> str:
        return "slice<a:b:c>" if self.has_step else "slice<a:b>"


@dataclass(frozen=True, slots=True)
class RangeType:
    """A range of integers, ``range(…)``."""

    #: Type of its items, a name of `ELEMENT_TYPES`.
    dtype: str

    def __str__(self) -> str:
        return f"range({self.dtype})"


@dataclass(frozen=True, slots=True)
class TupleType:
    """A tuple."""

    #: Types of its elements.
    elements: tuple[Type, ...]
    #: Names of the members of a named tuple, none of another.
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        inner = ", ".join(str(e) for e in self.elements)
        return f"({inner},)" if len(self.elements) == 1 else f"({inner})"


@dataclass(frozen=True, slots=True)
class TileType:
    """A tile."""

    #: Extents of the tile; ``(0,)`` represents one element for each thread of the block.
    shape: tuple[int, ...]
    #: Type of its elements, a name of `ELEMENT_TYPES`.
    dtype: str

    def __str__(self) -> str:
        extents = ", ".join(str(n) if n else "block" for n in self.shape)
        return f"tile({self.dtype}, {extents})"


@dataclass(frozen=True, slots=True)
class DtypeType:
    """A dtype as a value: ``np.float32``, which is called to convert, or ``array.dtype``."""

    #: A name of `ELEMENT_TYPES`.
    dtype: str

    def __str__(self) -> str:
        return f"dtype({self.dtype})"


@dataclass(frozen=True, slots=True)
class FunctionType:
    """A function, which a kernel can only call: of a library, an intrinsic or a device function."""

    #: Name, such as ``"sqrt"`` or ``"atomic.add"``. The unit has its meaning.
    name: str

    def __str__(self) -> str:
        return f"function({self.name})"


@dataclass(frozen=True, slots=True)
class OtherType:
    """A type that the language has no word for.

    Parameters
    ----------
    text : str
        How Numba prints it. Types of equal text are one type.
    """

    text: str

    def __str__(self) -> str:
        return self.text


#: Type of a value inside a kernel.
Type: TypeAlias = (
    ScalarKind
    | ArrayKind
    | TupleType
    | TileType
    | NoneType
    | StringType
    | SliceType
    | RangeType
    | DtypeType
    | FunctionType
    | OtherType
)

BOOL: Final = ScalarKind("bool")
NONE: Final = NoneType()
STRING: Final = StringType()
