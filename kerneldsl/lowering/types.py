"""Numba's types of argument kinds."""

from __future__ import annotations

from numba import types

from kerneldsl.language.element_types import DTYPE_NAMES
from kerneldsl.language.kinds import ArrayKind, Kind, ScalarKind

__all__ = ["ELEMENTS", "numba_type", "numba_types"]

#: Numba's type of each element type.
ELEMENTS: dict[str, types.Type] = {
    name: types.boolean if name == "bool" else getattr(types, name) for name in DTYPE_NAMES
}


def numba_type(kind: Kind) -> types.Type:
    """Return the Numba type of a kind.

    Parameters
    ----------
    kind : Kind
        A scalar, an array (mutable and aligned) or a tuple of kinds.

    Returns
    -------
    numba.types.Type

    Examples
    --------
    >>> numba_type(ArrayKind("float32", 2, "C"))
    Array(float32, 2, 'C', False, aligned=True)
    """
    if isinstance(kind, ScalarKind):
        return ELEMENTS[kind.dtype]
    if isinstance(kind, ArrayKind):
        return types.Array(ELEMENTS[kind.dtype], kind.ndim, kind.layout)
    return types.Tuple([numba_type(element) for element in kind.elements])


def numba_types(kinds: tuple[Kind, ...]) -> tuple[types.Type, ...]:
    """Return the Numba types of a specialization's arguments."""
    return tuple(numba_type(kind) for kind in kinds)
