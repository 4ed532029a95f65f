"""Between argument kinds and Numba's types."""

from __future__ import annotations

from typing import Any

from numba import types

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.language.kinds import (
    DTYPE_NAMES,
    ArrayKind,
    Kind,
    Layout,
    ScalarKind,
    TupleKind,
    parse_signature,
)

__all__ = ["kind_of_numba", "kinds_of_signature", "numba_type", "numba_types"]

_SCALARS: dict[str, types.Type] = {
    "bool": types.boolean,
    **{name: getattr(types, name) for name in DTYPE_NAMES if name != "bool"},
}
_NAMES = {scalar: name for name, scalar in _SCALARS.items()}


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


def kind_of_numba(numba_type: types.Type) -> Kind:
    """Return the kind of a Numba type.

    Parameters
    ----------
    numba_type : numba.types.Type
        A scalar, array or tuple type; literal types stand for their scalar.

    Returns
    -------
    Kind

    Raises
    ------
    ArgumentTypeError
        For any other type, such as a list or a string.

    Examples
    --------
    >>> kind_of_numba(types.Array(types.float64, 1, "F"))
    ArrayKind(dtype='float64', ndim=1, layout='C')
    """
    plain = types.unliteral(numba_type)
    if isinstance(plain, types.Array):
        name = _NAMES.get(plain.dtype)
        if name is not None:
            layout: Layout = "C" if plain.ndim == 0 else plain.layout
            # An array of one dimension is contiguous in both orders.
            return ArrayKind(name, plain.ndim, "C" if plain.ndim == 1 and layout == "F" else layout)
    elif isinstance(plain, types.BaseTuple):
        return TupleKind(tuple(kind_of_numba(element) for element in plain))
    elif plain in _NAMES:
        return ScalarKind(_NAMES[plain])
    raise ArgumentTypeError(
        f"A kernel cannot take an argument of Numba type {numba_type}",
        value=numba_type,
        limit=f"Scalars and arrays of {', '.join(DTYPE_NAMES)}, and tuples of these, are possible",
        remedy="Pass the parts as arguments of their own",
    )


def kinds_of_signature(signature: Any) -> tuple[Kind, ...]:
    """Return the kinds that an explicit signature names.

    Parameters
    ----------
    signature : str, numba.core.typing.Signature, or sequence of numba.types.Type
        ``"float32[:], int32"``, ``numba.void(numba.float32[:], numba.int32)`` or the tuple of its
        argument types.

    Returns
    -------
    tuple of Kind

    Raises
    ------
    ArgumentTypeError
        For a type that a kernel cannot take, or something that is no signature.
    """
    if isinstance(signature, str):
        try:
            return parse_signature(signature)
        except ValueError as error:
            raise ArgumentTypeError(
                str(error), value=signature, remedy="Write it as 'float32, float32[:, ::1]'"
            ) from error
    arguments = getattr(signature, "args", signature)
    if isinstance(arguments, types.Type) and not isinstance(arguments, types.BaseTuple):
        arguments = (arguments,)
    try:
        found = tuple(arguments)
    except TypeError:
        found = (None,)
    if not all(isinstance(a, types.Type) for a in found):
        raise ArgumentTypeError(
            f"{signature!r} is no signature",
            value=signature,
            remedy="Write it as 'float32, float32[:, ::1]', or as a tuple of Numba types",
        )
    return tuple(kind_of_numba(argument) for argument in found)
