"""Argument kinds of kernels, as data, without Numba.

A *kind* is the part of an argument that the compiled code depends on: the dtype of a scalar; the
dtype, rank and layout of an array. Kinds are hashable, and a tuple of them is the key of a
specialization. They are written and read in Numba's signature notation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

from kerneldsl.language.element_types import ELEMENT_TYPES, ElementType
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "ArrayKind",
    "Kind",
    "Layout",
    "ScalarKind",
    "TupleKind",
    "array_kinds",
    "for_parameters",
    "format_signature",
    "leaf_kinds",
]

#: "C" and "F" are contiguous, "A" is any strides.
Layout: TypeAlias = Literal["C", "F", "A"]


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """A scalar passed by value."""

    #: A name of `ELEMENT_TYPES`.
    dtype: str

    @property
    def element(self) -> ElementType:
        """Row of its dtype in the table of element types."""
        return ELEMENT_TYPES[self.dtype]

    def __str__(self) -> str:
        return self.dtype


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """An array passed by reference."""

    #: A name of `ELEMENT_TYPES`.
    dtype: str
    #: Rank; 0 is allowed.
    ndim: int
    #: Contiguity. Arrays of rank 0 are "C".
    layout: Layout = "C"

    @property
    def element(self) -> ElementType:
        """Row of its elements' dtype in the table of element types."""
        return ELEMENT_TYPES[self.dtype]

    def __str__(self) -> str:
        if self.ndim == 0:
            return f"{self.dtype}[()]"
        axes = [":"] * self.ndim
        if self.layout == "C":
            axes[-1] = "::1"
        elif self.layout == "F":
            axes[0] = "::1"
        return f"{self.dtype}[{', '.join(axes)}]"


@dataclass(frozen=True, slots=True)
class TupleKind:
    """A tuple, flattened into its elements when it is passed."""

    #: Kinds of its elements.
    elements: tuple[Kind, ...]
    #: Names of the elements of a named tuple; otherwise empty.
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.names:
            pairs = zip(self.names, self.elements, strict=True)
            return f"{{{', '.join(f'{name}: {kind}' for name, kind in pairs)}}}"
        inner = ", ".join(str(e) for e in self.elements)
        return f"({inner},)" if len(self.elements) == 1 else f"({inner})"


Kind: TypeAlias = ScalarKind | ArrayKind | TupleKind


def array_kinds(kinds: Iterable[Kind]) -> Iterator[ArrayKind]:
    """Return the arrays among arguments, those in tuples included, in their order.

    Examples
    --------
    >>> from kerneldsl.language.signatures import parse_signature
    >>> [str(kind) for kind in array_kinds(parse_signature("int8[::1], f4, (f8[:], i4)"))]
    ['int8[::1]', 'float64[:]']
    """
    return (kind for kind in leaf_kinds(kinds) if isinstance(kind, ArrayKind))


def leaf_kinds(kinds: Iterable[Kind]) -> Iterator[ScalarKind | ArrayKind]:
    """Return the scalars and arrays among arguments, those in tuples included, in their order.

    Examples
    --------
    >>> from kerneldsl.language.signatures import parse_signature
    >>> [str(kind) for kind in leaf_kinds(parse_signature("i4, (f8[:], (i8,))"))]
    ['int32', 'float64[:]', 'int64']
    """
    for kind in kinds:
        if isinstance(kind, TupleKind):
            yield from leaf_kinds(kind.elements)
        else:
            yield kind


def format_signature(kinds: tuple[Kind, ...]) -> str:
    """Write kinds in Numba's notation.

    Examples
    --------
    >>> format_signature((ScalarKind("float32"), ArrayKind("float32", 2, "C")))
    'float32, float32[:, ::1]'
    >>> format_signature((TupleKind((ScalarKind("float32"),)),))
    '(float32,),'
    """
    text = ", ".join(str(k) for k in kinds)
    # Without the comma, the text could be Numba's signature of one parameter that is no tuple.
    is_tuple_of_one = len(kinds) == 1 and text.endswith(",)")
    return f"{text}," if is_tuple_of_one else text


def for_parameters(kinds: tuple[Kind, ...], count: int) -> tuple[Kind, ...]:
    """Return the kinds of so many parameters, where all of them may be in one tuple.

    Numba's signatures may have parentheses around them, ``"(f8[:], f8[:])"``, which of a kernel
    with one parameter are a tuple.
    """
    if len(kinds) == 1 and isinstance(kinds[0], TupleKind) and len(kinds[0].elements) == count != 1:
        return kinds[0].elements
    return kinds
