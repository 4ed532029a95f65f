"""Values inside a kernel as far as they are known without Numba: element type, rank, parts."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.language.promotion import unified
from kerneldsl.utilities.dataclasses import dataclass

__all__ = [
    "Elements",
    "Value",
    "field_of",
    "items_of",
    "joined",
    "value_of_constant",
    "value_of_kind",
]


@dataclass(frozen=True, slots=True)
class Elements:
    """An array, or with `is_range` a range.

    Parameters
    ----------
    dtype : str
        Type of its elements.
    ndim : int
        Rank.
    is_range : bool
        Whether it is ``range(…)``, which has items and nothing else.
    """

    dtype: str
    ndim: int
    is_range: bool = False


#: What is known of a value: the element type of a scalar, an array, a tuple's parts; or nothing.
Value: TypeAlias = "str | Elements | tuple[Value, ...] | None"


def value_of_kind(kind: Kind) -> Value:
    """Return what is known of an argument of some kind."""
    if isinstance(kind, ScalarKind):
        return kind.dtype
    if isinstance(kind, ArrayKind):
        return Elements(kind.dtype, kind.ndim)
    return tuple(map(value_of_kind, kind.elements))


def joined(one: Value, two: Value, *, may_differ: bool = True) -> Value:
    """Return what is known of a value that is one of two; with `may_differ` of two types."""
    if one == two:
        return one
    if isinstance(one, tuple) and isinstance(two, tuple) and len(one) == len(two):
        return tuple(joined(a, b, may_differ=may_differ) for a, b in zip(one, two, strict=True))
    if may_differ and isinstance(one, str) and isinstance(two, str):
        return unified([one, two])
    return None


def items_of(value: Value) -> Value:
    """Return what is known of the items of what is looped over."""
    if isinstance(value, Elements):
        return value.dtype if value.ndim == 1 else None
    if isinstance(value, tuple) and value and all(each == value[0] for each in value):
        return value[0]
    return None


def field_of(owner: Value, name: str) -> Value:
    """Return what is known of the field of a record, or of every record of an array."""
    dtype = owner.dtype if isinstance(owner, Elements) else owner
    if not isinstance(dtype, str):
        return None
    for field in ELEMENT_TYPES[dtype].fields:
        if field.name == name:
            rank = len(field.shape) + (owner.ndim if isinstance(owner, Elements) else 0)
            return Elements(field.dtype, rank) if rank else field.dtype
    return None


def value_of_constant(value: object) -> Value:
    """Return what is known of a constant's type."""
    match value:
        case np.generic() | np.ndarray():
            name = value.dtype.name
            if name not in ELEMENT_TYPES:
                return None
            return name if isinstance(value, np.generic) else Elements(name, value.ndim)
        case bool():
            return "bool"
        case int():
            sizes = [n for n in ("int64", "uint64") if value in range(*_limits(n))]
            return sizes[0] if sizes else None
        case float():
            return "float64"
        case complex():
            return "complex128"
        case tuple():
            return tuple(map(value_of_constant, value))
    return None


def _limits(name: str) -> tuple[int, int]:
    smallest, largest = ELEMENT_TYPES[name].integer_range
    return smallest, largest + 1
