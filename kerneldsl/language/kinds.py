"""Argument kinds of kernels, as data, without Numba.

A *kind* is the part of an argument that the compiled code depends on: of an array its dtype, rank
and layout, of a scalar its dtype. Kinds are hashable, ordered tuples of them are the key of a
specialization, and they are written and read in Numba's signature notation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from kerneldsl.language.element_types import DTYPE_NAMES, ELEMENT_TYPES, ElementType

__all__ = [
    "ArrayKind",
    "Kind",
    "Layout",
    "ScalarKind",
    "TupleKind",
    "array_kinds",
    "format_signature",
    "leaf_kinds",
    "parse_signature",
]

#: "C" and "F" are contiguous, "A" is any strides.
Layout: TypeAlias = Literal["C", "F", "A"]


@dataclass(frozen=True, slots=True)
class ScalarKind:
    """A scalar passed by value.

    Parameters
    ----------
    dtype : str
        A name of `ELEMENT_TYPES`.
    """

    dtype: str

    @property
    def element(self) -> ElementType:
        """Row of its dtype in the table of element types."""
        return ELEMENT_TYPES[self.dtype]

    def __str__(self) -> str:
        return self.dtype


@dataclass(frozen=True, slots=True)
class ArrayKind:
    """An array passed by reference.

    Parameters
    ----------
    dtype : str
        A name of `ELEMENT_TYPES`.
    ndim : int
        Rank; 0 is allowed.
    layout : {"C", "F", "A"}
        Contiguity. Arrays of rank 0 are "C".
    """

    dtype: str
    ndim: int
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

    elements: tuple[Kind, ...]

    def __str__(self) -> str:
        inner = ", ".join(str(e) for e in self.elements)
        return f"({inner},)" if len(self.elements) == 1 else f"({inner})"


Kind: TypeAlias = ScalarKind | ArrayKind | TupleKind


def array_kinds(kinds: Iterable[Kind]) -> Iterator[ArrayKind]:
    """Return the arrays among arguments, those in tuples included, in their order.

    Examples
    --------
    >>> [str(kind) for kind in array_kinds(parse_signature("int8[::1], f4, (f8[:], i4)"))]
    ['int8[::1]', 'float64[:]']
    """
    return (kind for kind in leaf_kinds(kinds) if isinstance(kind, ArrayKind))


def leaf_kinds(kinds: Iterable[Kind]) -> Iterator[ScalarKind | ArrayKind]:
    """Return the scalars and arrays among arguments, those in tuples included, in their order.

    Examples
    --------
    >>> [str(kind) for kind in leaf_kinds(parse_signature("i4, (f8[:], (i8,))"))]
    ['int32', 'float64[:]', 'int64']
    """
    for kind in kinds:
        if isinstance(kind, TupleKind):
            yield from leaf_kinds(kind.elements)
        else:
            yield kind


#: Other names of element types; short ones, such as "f4", are those of the array interface.
_ALIASES = {
    **{row.typestr[1:]: row.name for row in ELEMENT_TYPES.values()},
    "boolean": "bool",
    "bool_": "bool",
    "int": "int64",
    "intp": "int64",
    "uintp": "uint64",
    "float": "float64",
    "complex": "complex128",
    "byte": "uint8",
}
_TOKEN = re.compile(r"\s*(?:(\w+)(?:\[([^\]]*)\])?|([(),]))")


def format_signature(kinds: tuple[Kind, ...]) -> str:
    """Write kinds in Numba's notation.

    Examples
    --------
    >>> format_signature((ScalarKind("float32"), ArrayKind("float32", 2, "C")))
    'float32, float32[:, ::1]'
    """
    return ", ".join(str(k) for k in kinds)


def parse_signature(text: str) -> tuple[Kind, ...]:
    """Read kinds from Numba's notation.

    Parameters
    ----------
    text : str
        Such as ``"float32, float32[::1], (int32, int64)"``; one pair of outer parentheses, as in
        ``"void(float32, float32[:])"``, is allowed.

    Returns
    -------
    tuple of Kind

    Raises
    ------
    ValueError
        Where the text is not a signature; the message names the part.

    Examples
    --------
    >>> matrix, pair = parse_signature("float32[:, ::1], (int32, f8)")
    >>> matrix
    ArrayKind(dtype='float32', ndim=2, layout='C')
    >>> str(pair)
    '(int32, float64)'
    """
    body = text.strip()
    outer = re.fullmatch(r"(?:void|none)\s*\((.*)\)", body, re.DOTALL)
    if outer:
        body = outer.group(1)
    stack: list[list[Kind]] = [[]]
    position = 0
    while position < len(body):
        if body[position:].isspace():
            break
        match = _TOKEN.match(body, position)
        if match is None:
            raise ValueError(f"signature {text!r}: cannot read {body[position:].strip()!r}")
        position = match.end()
        name, axes, mark = match.groups()
        if name is not None:
            stack[-1].append(_parse_one(name, axes, text))
        elif mark == "(":
            stack.append([])
        elif mark == ")":
            if len(stack) == 1:
                raise ValueError(f"signature {text!r}: unbalanced parenthesis")
            done = stack.pop()
            stack[-1].append(TupleKind(tuple(done)))
    if len(stack) != 1:
        raise ValueError(f"signature {text!r}: unbalanced parenthesis")
    return tuple(stack[0])


def _parse_one(name: str, axes: str | None, text: str) -> Kind:
    dtype = _ALIASES.get(name, name)
    if dtype not in DTYPE_NAMES:
        raise ValueError(
            f"signature {text!r}: unknown dtype {name!r}; known are {', '.join(DTYPE_NAMES)}"
        )
    if axes is None:
        return ScalarKind(dtype)
    parts = [p.strip() for p in axes.split(",")]
    if parts == ["()"]:
        return ArrayKind(dtype, 0, "C")
    if any(p not in (":", "::1") for p in parts) or parts.count("::1") > 1:
        raise ValueError(f"signature {text!r}: axes must be ':' or one '::1', found [{axes}]")
    layout: Layout = "A"
    if parts[-1] == "::1":
        layout = "C"
    elif parts[0] == "::1":
        layout = "F"
    elif "::1" in parts:
        raise ValueError(f"signature {text!r}: '::1' must stand first or last, found [{axes}]")
    return ArrayKind(dtype, len(parts), layout)
