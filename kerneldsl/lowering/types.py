"""Numba's types of argument kinds."""

from __future__ import annotations

from numba import types

from kerneldsl.language.element_types import ELEMENT_TYPES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind
from kerneldsl.language.records import is_record_name, layout_of_name

__all__ = ["element_type", "numba_type", "numba_types"]


def element_type(dtype: str) -> types.Type:
    """Return the Numba type of an element type.

    What it takes to compute with a type may be registered with Numba by the first call for it, so
    this must be called before Numba makes a compiler, which reads what is registered.

    Examples
    --------
    >>> element_type("bool"), element_type("uint8")
    (bool, uint8)
    """
    if ELEMENT_TYPES[dtype].is_narrow:
        from kerneldsl.lowering import narrow_floats  # registers with Numba, which takes a while

        return getattr(narrow_floats, dtype.upper())
    if is_record_name(dtype):
        from kerneldsl.lowering.records import record_type  # registers with Numba too

        return record_type(dtype, element_type)
    return types.boolean if dtype == "bool" else getattr(types, dtype)


def numba_type(kind: Kind) -> types.Type:
    """Return the Numba type of a kind.

    Arrays are mutable; those of packed records count as not aligned, and all others as aligned.

    Examples
    --------
    >>> numba_type(ArrayKind("float32", 2, "C"))
    Array(float32, 2, 'C', False, aligned=True)
    """
    if isinstance(kind, ScalarKind):
        return element_type(kind.dtype)
    if isinstance(kind, ArrayKind):
        is_aligned = not is_record_name(kind.dtype) or layout_of_name(kind.dtype).is_aligned
        element = element_type(kind.dtype)
        return types.Array(element, kind.ndim, kind.layout, aligned=is_aligned)
    return types.Tuple([numba_type(element) for element in kind.elements])


def numba_types(kinds: tuple[Kind, ...]) -> tuple[types.Type, ...]:
    """Return the Numba types of a specialization's arguments."""
    return tuple(numba_type(kind) for kind in kinds)
