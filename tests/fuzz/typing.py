"""Types of operations, asked of Numba itself, and their values, computed with NumPy scalars."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = [
    "DTYPES",
    "FLOATS",
    "INTEGERS",
    "binary",
    "cast",
    "compare",
    "extremum",
    "result_type",
    "square_root",
    "unary",
]

INTEGERS = ("int32", "int64", "uint32", "uint64")
FLOATS = ("float32", "float64")
DTYPES = INTEGERS + FLOATS

#: Operator to Python function; the same names are NumPy's ufuncs, but for those in `_UFUNCS`.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "neg": operator.neg,
    "invert": operator.invert,
    "min": min,
    "max": max,
}
_UFUNCS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.true_divide,
    "//": np.floor_divide,
    "%": np.remainder,
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
    "<<": np.left_shift,
    ">>": np.right_shift,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "neg": np.negative,
    "invert": np.invert,
}


@cache
def _signature(op: str, *dtypes: str) -> tuple[tuple[str, ...], str]:
    """Ask Numba which types the operands are converted to and what comes out."""
    from numba import types
    from numba.core.registry import cpu_target

    context = cpu_target.typing_context
    context.refresh()
    arguments = tuple(getattr(types, d) for d in dtypes)
    signature = context.resolve_function_type(_OPERATORS[op], arguments, {})
    names = dtypes if op in ("min", "max") else tuple(str(a) for a in signature.args)
    return names, str(signature.return_type)


def result_type(op: str, *dtypes: str) -> str:
    """Return the dtype of an operation as Numba types it; ``"bool"`` for a comparison."""
    return _signature(op, *dtypes)[1]


def cast(value: Any, dtype: str) -> Any:
    """Convert as C does: integers wrap, floats round to nearest."""
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(dtype)[()]


def binary(op: str, left: Any, right: Any) -> Any:
    """Arithmetic of two NumPy scalars.

    Numba computes in the type of the result; only a true division of integers converts each
    operand to its own argument type before that.
    """
    arguments, result = _signature(op, left.dtype.name, right.dtype.name)
    if op == "/":
        left, right = cast(left, arguments[0]), cast(right, arguments[1])
    with np.errstate(all="ignore"):
        return _UFUNCS[op](cast(left, result), cast(right, result))


def compare(op: str, left: Any, right: Any) -> bool:
    """Comparison of two NumPy scalars in the types that Numba converts them to."""
    (first, second), _ = _signature(op, left.dtype.name, right.dtype.name)
    return bool(_UFUNCS[op](cast(left, first), cast(right, second)))


def unary(op: str, value: Any) -> Any:
    """Negation and inversion: in the operand's type, then converted to the result's."""
    _, result = _signature(op, value.dtype.name)
    with np.errstate(all="ignore"):
        return cast(_UFUNCS[op](value), result)


def extremum(op: str, left: Any, right: Any) -> Any:
    """``min`` and ``max`` of two integers."""
    _, result = _signature(op, left.dtype.name, right.dtype.name)
    left, right = cast(left, result), cast(right, result)
    return _OPERATORS[op](left, right)


def square_root(value: Any) -> Any:
    """``np.sqrt`` of a float."""
    with np.errstate(all="ignore"):
        return np.sqrt(value)
