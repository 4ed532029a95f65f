"""Numba's types of argument kinds."""

from __future__ import annotations

from numba import types

from kerneldsl.language.kinds import DTYPE_NAMES, ArrayKind, Kind, ScalarKind

__all__ = ["numba_type", "numba_types"]

_SCALARS: dict[str, types.Type] = {
    "bool": types.boolean,
    **{name: getattr(types, name) for name in DTYPE_NAMES if name != "bool"},
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
        return _SCALARS[kind.dtype]
    if isinstance(kind, ArrayKind):
        return types.Array(_SCALARS[kind.dtype], kind.ndim, kind.layout)
    return types.Tuple([numba_type(element) for element in kind.elements])


def numba_types(kinds: tuple[Kind, ...]) -> tuple[types.Type, ...]:
    """Return the Numba types of a specialization's arguments."""
    return tuple(numba_type(kind) for kind in kinds)
