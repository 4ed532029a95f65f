"""Types of operations, asked of a kernel's typing context, and their values, computed with NumPy.

What is said of scalars is done to tiles, which are arrays, element by element.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tests.support.conversions import UndefinedConversionError, cast
from tests.support.vectors import Vector

__all__ = [
    "DTYPES",
    "FLOATS",
    "INTEGERS",
    "NARROW_INTEGERS",
    "UndefinedConversionError",
    "binary",
    "cast",
    "common_type",
    "compare",
    "constant",
    "conversion",
    "dtype_of",
    "extremum",
    "result_type",
    "square_root",
    "unary",
]

INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
#: What a shuffle exchanges as an int32.
NARROW_INTEGERS = ("int8", "int16", "uint8", "uint16")
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
    "abs": abs,
    "min": min,
    "max": max,
    "int": int,
    "float": float,
}
_UFUNCS: dict[str, Callable[..., Any]] = {
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
    "==": np.equal,
    "!=": np.not_equal,
    "neg": np.negative,
    "invert": np.invert,
    "abs": np.absolute,
}


@cache
def _signature(op: str, *dtypes: str) -> tuple[tuple[str, ...], str]:
    """Ask Numba which types the operands are converted to and what comes out."""
    context = _typing_context()
    arguments = tuple(_numba_type(d) for d in dtypes)
    function = context.resolve_value_type(_OPERATORS[op])
    signature = context.resolve_function_type(function, arguments, {})
    names = dtypes if op in ("min", "max") else tuple(str(a) for a in signature.args)
    return names, str(signature.return_type)


@cache
def _typing_context() -> Any:
    from kerneldsl.lowering.numba_internals.compiling import global_compiler_lock
    from kerneldsl.lowering.numba_internals.host_code import host_contexts

    with global_compiler_lock:
        return host_contexts().typing_context


def _numba_type(dtype: str) -> Any:
    from numba import types

    return types.boolean if dtype == "bool" else getattr(types, dtype)


def result_type(op: str, *dtypes: str) -> str:
    """Return the dtype of an operation as Numba types it; ``"bool"`` for a comparison."""
    return _signature(op, *dtypes)[1]


def conversion(name: str, value: Any) -> Any:
    """``int`` or ``float`` of a NumPy scalar; ``int`` of an unsigned one is unsigned in Numba."""
    return cast(value, result_type(name, dtype_of(value)))


@cache
def common_type(first: str, second: str) -> str:
    """Return the dtype of a value of one of two dtypes, as of a conditional expression."""
    return str(_typing_context().unify_types(_numba_type(first), _numba_type(second)))


def dtype_of(value: Any) -> str:
    """Return the dtype of a scalar."""
    return "bool" if isinstance(value, bool | np.bool_) else str(value.dtype.name)


def constant(value: Any) -> Any:
    """Give a Python number, or those of a tuple, the types that Numba gives them."""
    if type(value) is tuple:
        return tuple(map(constant, value))
    if type(value) is int:
        return np.int64(value)
    return np.float64(value) if type(value) is float else value


def _arithmetic(op: str, left: str, right: str) -> Callable[[Any, Any], Any]:
    arguments, result = _signature(op, left, right)
    function = _OPERATORS[op]
    if left == right == result and arguments == (left, right):
        return function

    def convert(a: Any, b: Any) -> Any:
        if op == "/":
            a, b = cast(a, arguments[0]), cast(b, arguments[1])
        return function(cast(a, result), cast(b, result))

    return convert


_found: dict[tuple[str, type, type], Callable[[Any, Any], Any]] = {}


def binary(op: str, left: Any, right: Any) -> Any:
    """Arithmetic of two NumPy scalars.

    Numba computes in the type of the result; only a true division of integers converts each
    operand to its own argument type before that.
    """
    if type(left) is Vector or type(right) is Vector:
        return _OPERATORS[op](left, right)
    if type(left) is np.ndarray or type(right) is np.ndarray:
        return _arithmetic(op, dtype_of(left), dtype_of(right))(left, right)
    key = (op, type(left), type(right))
    function = _found.get(key)
    if function is None:
        function = _found[key] = _arithmetic(op, dtype_of(left), dtype_of(right))
    return function(left, right)


def compare(op: str, left: Any, right: Any) -> Any:
    """Comparison of two NumPy scalars in the types that Numba converts them to."""
    if type(left) is type(right) is not np.ndarray:
        return bool(_OPERATORS[op](left, right))
    (first, second), _ = _signature(op, dtype_of(left), dtype_of(right))
    found = _UFUNCS[op](cast(left, first), cast(right, second))
    return found if type(found) is np.ndarray else bool(found)


def unary(op: str, value: Any) -> Any:
    """Negation, inversion and absolute value: in the operand's type, then in the result's."""
    if type(value) is Vector:
        return _OPERATORS[op](value)
    _, result = _signature(op, dtype_of(value))
    return cast(_UFUNCS[op](value), result)


def extremum(op: str, left: Any, right: Any) -> Any:
    """``min`` and ``max`` of two numbers."""
    _, result = _signature(op, dtype_of(left), dtype_of(right))
    is_right = compare("<" if op == "min" else ">", right, left)
    left, right = cast(left, result), cast(right, result)
    if type(left) is np.ndarray or type(right) is np.ndarray:
        return np.where(is_right, right, left)
    return right if is_right else left


def square_root(value: Any) -> Any:
    """``math.sqrt`` of a float."""
    return np.sqrt(value)
