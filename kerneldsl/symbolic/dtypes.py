"""The dtype in which an expression is computed, by the arrays and numbers that it is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from kerneldsl.errors.values import safe_repr
from kerneldsl.frontend.statics import dtype_name as type_name
from kerneldsl.language.element_types import ELEMENT_TYPES, REAL_KINDS, ElementKind, numpy_dtype
from kerneldsl.language.kinds import ArrayKind, TupleKind

__all__ = ["computing_dtype", "dtype_name", "has_dtype", "read_dtype"]

_PYTHONS_NUMBERS = bool | int | float | complex


def computing_dtype(values: Iterable[Any], *, needs_floats: bool) -> Any:
    """Return the dtype that numbers of an expression are converted to.

    - `values`: arrays, numbers, or kinds of arguments.
    - `needs_floats`: whether the expression of integers may be no integer.
    - returns: NumPy's dtype of all arrays if that is float32 or float64, and float32 for narrower
      floats. Of integers float64 where the expression, or one of the numbers, needs it, else int64
      or uint64.
    - raises `ArgumentTypeError` where an array is of another kind.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.ones(3, np.float32)
    >>> computing_dtype([x, 0.5], needs_floats=True).__name__
    'float32'
    """
    dtypes = []
    for each in values:
        name = dtype_name(each)
        kind = ELEMENT_TYPES[name].kind if name in ELEMENT_TYPES else None
        if kind not in (*REAL_KINDS, ElementKind.BOOL):
            raise ArgumentTypeError(
                f"an argument of an expression has the dtype {name}",
                value=name,
                limit="Expressions are computed with booleans, integers and floats",
                remedy="Compute the real and the imaginary part, or each field, by itself"
                if name.startswith(("complex", "void"))
                else "Convert it: array.astype(np.float64)",
            )
        is_float = kind is ElementKind.FLOAT
        if not (isinstance(each, ArrayKind) or bool(getattr(each, "shape", ()))):
            needs_floats |= is_float
        else:
            dtypes.append(np.dtype(ELEMENT_TYPES[name].arithmetic if is_float else name))
    found = np.result_type(*dtypes) if dtypes else np.dtype(np.float64)
    if found.kind == "f":
        return found.type
    return np.float64 if needs_floats else np.uint64 if found == np.uint64 else np.int64


def has_dtype(value: Any) -> bool:
    """Return whether a value shows its dtype: an array, a number or a kind of argument does."""
    return getattr(value, "dtype", None) is not None or isinstance(value, _PYTHONS_NUMBERS)


def dtype_name(value: Any) -> str:
    """Return the name of the dtype of an array, a number or a kind of argument."""
    dtype = getattr(value, "dtype", None)  # np.float64 is a float, and has one
    if dtype is None and isinstance(value, _PYTHONS_NUMBERS):
        return {bool: "bool", int: "int64", float: "float64"}.get(type(value), "complex128")
    if dtype is None:
        what = value if isinstance(value, TupleKind) else safe_repr(value)
        raise ArgumentTypeError(
            f"an argument is {what}",
            value=value,
            limit="Expressions take arrays and numbers",
            remedy="Make an array of it: np.asarray(…)",
        )
    # torch's are called torch.float32.
    return str(getattr(dtype, "name", dtype)).rpartition(".")[2]


def read_dtype(value: Any) -> Any:
    """Return the dtype that a launch names, as the kernel's text calls it.

    - raises `ArgumentTypeError` if it is no dtype that expressions are computed in.
    """
    name = type_name(value)
    if name is None or ELEMENT_TYPES[name].kind not in REAL_KINDS:
        raise ArgumentTypeError(
            f"dtype is {safe_repr(value)}",
            value=value,
            limit="Expressions are computed with integers and floats",
            remedy="Write dtype=np.float32, or leave it out: the arrays show it",
        )
    return numpy_dtype(name).type
