"""Numba's types of what kernels are called with."""

from __future__ import annotations

from typing import Any

from kerneldsl.language.element_types import ELEMENT_TYPES, element_name, numpy_dtype
from kerneldsl.language.kinds import ArrayKind, Kind, Layout, ScalarKind, TupleKind
from kerneldsl.language.signatures import read_signature
from kerneldsl.lowering.numba_internals.vocabulary import (
    check_overloads,
    from_dtype,
    normalize_signature,
)
from kerneldsl.lowering.types import element_type, tuple_type
from kerneldsl.utilities.modules import is_of_numba

__all__ = [
    "argument_types",
    "check_overloads",
    "kinds_of_signature",
    "pointers_of_signature",
    "records_by_reference",
    "type_of_array",
    "types_of_signature",
]


def argument_types(kinds: tuple[Kind, ...]) -> tuple[Any, ...]:
    """Return Numba's types of parameters, as programs write them.

    kerneldsl has other types for float16, records and dates. These are Numba's.
    """
    return tuple(map(_public, kinds))


def _public(kind: Kind) -> Any:
    from numba import types

    if isinstance(kind, TupleKind):
        return tuple_type([_public(each) for each in kind.elements], kind.names)
    is_known = _is_of_numba(kind.dtype)
    found = from_dtype(numpy_dtype(kind.dtype)) if is_known else element_type(kind.dtype)
    if isinstance(kind, ArrayKind):
        return types.Array(found, kind.ndim, kind.layout)
    return found


def _is_of_numba(name: str) -> bool:
    """Return whether Numba has a type for an element type; it has none of ml_dtypes' floats."""
    row = ELEMENT_TYPES[name]
    if row.is_record:
        return all(_is_of_numba(each.dtype) for each in row.fields)
    return row.package == "numpy" and not row.is_vector


def kinds_of_signature(signature: Any, *, of_kernel: bool = False) -> tuple[tuple[Kind, ...], Any]:
    """Return the kinds of parameters, and Numba's type of the result or ``None``.

    A signature is a text, types in a tuple, or an object of Numba's. In that of a kernel, or of
    linked code, a pointer is an array of one axis, and :func:`types_of_signature` has the
    parameters that are types.
    """
    arguments, result = normalize_signature(signature)
    if of_kernel:
        from numba import types

        arguments = [types.Array(t.dtype, 1, "C") if _is_pointer(t) else t for t in arguments]
        arguments = [each for each in arguments if not _is_type(each)]
    return read_signature(tuple(arguments)) if arguments else (), result


def pointers_of_signature(signature: Any) -> frozenset[int]:
    """Return the positions of parameters that are pointers, which addresses are given to."""
    arguments, _ = normalize_signature(signature)
    return frozenset(n for n, each in enumerate(arguments) if _is_pointer(each))


def types_of_signature(signature: Any) -> dict[int, Any]:
    """Return the parameters of a kernel that are types, such as ``typeof(np.int32)``."""
    arguments, _ = normalize_signature(signature)
    return {n: each.dtype for n, each in enumerate(arguments) if _is_type(each)}


def _is_type(kind: Any) -> bool:
    return is_of_numba(kind, "NumberClass") or is_of_numba(kind, "DType")


def _is_pointer(kind: Any) -> bool:
    return is_of_numba(kind, "CPointer")


def records_by_reference(kinds: tuple[Kind, ...]) -> tuple[Kind, ...]:
    """Return kinds of parameters in which a record is an array without axes: kernels write it."""
    return tuple(
        ArrayKind(kind.dtype, 0)
        if isinstance(kind, ScalarKind) and kind.element.is_record
        else kind
        for kind in kinds
    )


def type_of_array(array: Any) -> Any:
    """Return Numba's type of a device array."""
    name = element_name(array.dtype)
    if name is None:
        raise TypeError(f"kernels take no arrays of dtype {array.dtype}")
    layout: Layout = "A" if array.size and 0 in array.strides else array.layout
    return _public(ArrayKind(name, array.ndim, layout))


def __getattr__(name: str) -> Any:
    if name != "bfloat16":  # a type of numba-cuda's that Numba has not
        raise AttributeError(name)
    return element_type(name)
