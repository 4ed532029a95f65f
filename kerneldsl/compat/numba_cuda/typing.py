"""Numba's types of what kernels are called with."""

from __future__ import annotations

from typing import Any

from kerneldsl.language.kinds import ArrayKind, Kind, Layout, ScalarKind
from kerneldsl.language.signatures import read_signature
from kerneldsl.lowering.types import numba_types

__all__ = ["argument_types", "kinds_of_signature", "type_of_array", "type_of_dtype"]


def argument_types(kinds: tuple[Kind, ...]) -> tuple[Any, ...]:
    """Return Numba's types of parameters."""
    return numba_types(kinds)


def kinds_of_signature(signature: Any) -> tuple[tuple[Kind, ...], Any]:
    """Return the kinds of parameters, and Numba's type of the result or ``None``.

    A signature is a text, types in a tuple, or an object of Numba's.
    """
    from kerneldsl.lowering.numba_internals.vocabulary import normalize_signature

    arguments, result = normalize_signature(signature)
    return read_signature(tuple(arguments)) if arguments else (), result


def type_of_array(array: Any) -> Any:
    """Return Numba's type of a device array."""
    from kerneldsl.language.element_types import element_name

    name = element_name(array.dtype)
    if name is None:
        raise TypeError(f"kernels take no arrays of dtype {array.dtype}")
    layout: Layout = "A" if array.size and 0 in array.strides else array.layout
    return numba_types((ArrayKind(name, array.ndim, layout),))[0]


def type_of_dtype(dtype: Any) -> Any:
    """Return Numba's type of the elements of a dtype."""
    from kerneldsl.language.element_types import element_name

    name = element_name(dtype)
    if name is None:
        raise TypeError(f"kernels have no elements of dtype {dtype}")
    return numba_types((ScalarKind(name),))[0]
