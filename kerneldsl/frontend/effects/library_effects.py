"""Find what functions and methods of Python and NumPy do with the arrays they are given."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import numpy as np

from kerneldsl.frontend.library_names import name_of_function

__all__ = [
    "EXTENT_ATTRIBUTES",
    "PLAIN_ATTRIBUTES",
    "READING_METHODS",
    "SCALAR_METHODS",
    "TYPE_ATTRIBUTES",
    "VIEW_METHODS",
    "WRITING_FUNCTIONS",
    "gives_scalar",
    "is_result",
    "looks_at_scalars",
    "makes_scalars",
    "only_reads",
    "result_position",
]

#: Attributes of an array that belong to its type, and those that give its extents.
TYPE_ATTRIBUTES = frozenset({"dtype", "itemsize", "ndim"})
EXTENT_ATTRIBUTES = frozenset({"nbytes", "shape", "size", "strides"})
#: Attributes of an array that give no access to its elements.
PLAIN_ATTRIBUTES = TYPE_ATTRIBUTES | EXTENT_ATTRIBUTES
#: Methods that give a view of their array.
VIEW_METHODS = frozenset({"reshape", "ravel", "view", "transpose", "squeeze"})
#: Methods that do not change their array, and return no view of it.
READING_METHODS = frozenset(
    """
    sum prod min max mean std var any all argmin argmax item copy astype dot cumsum cumprod
    flatten nonzero ptp conj conjugate tolist
    """.split()  # noqa: SIM905 - a list of words is easier to read
)
#: Methods that a scalar has too.
SCALAR_METHODS = frozenset({"conj", "conjugate", "item"})
#: NumPy's functions, besides the ufuncs, that compute a scalar from scalars.
_SCALAR_FUNCTIONS = frozenset(
    f"numpy.{name}"
    for name in ("around", "clip", "imag", "isclose", "nan_to_num", "real", "round", "where")
)
#: NumPy's functions that write to the array that is their first argument.
WRITING_FUNCTIONS = frozenset(("copyto", "put", "place", "putmask", "fill_diagonal", "shuffle"))


_SCALAR_BUILTINS = (
    abs, bool, complex, divmod, float, int, len, max, min, pow, print, range, round
)  # fmt: skip


def looks_at_scalars(function: Any, node: ast.Call) -> bool:
    """Return whether a call cannot look into an array that the function is given."""
    if function in (max, min) and len(node.args) == 1:
        return False  # of an array's elements
    return (
        any(function is known for known in _SCALAR_BUILTINS)
        or (name_of_function(function) or "").startswith(("math.", "cmath."))
        or (isinstance(function, type) and issubclass(function, np.generic | BaseException))
    )


def gives_scalar(function: Any, node: ast.Call) -> bool:
    """Return whether a function computes a scalar from scalars or 0-dimensional arrays."""
    return (
        isinstance(function, np.ufunc)
        or looks_at_scalars(function, node)
        or name_of_function(function) in _SCALAR_FUNCTIONS
    )


def makes_scalars(function: Any, node: ast.Call) -> bool:
    """Return whether a result is never a view of an argument; an element counts as none."""
    return isinstance(function, np.ufunc) or (
        looks_at_scalars(function, node) and function not in (max, min)
    )


def result_position(function: Any) -> int | None:
    """Return which argument of a function of NumPy's is the array for its result, if one may be."""
    if isinstance(function, np.ufunc):
        return function.nin
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # no function, or one that is written in C
        return None
    return parameters.index("out") if "out" in parameters else None


def is_result(function: Any, position: int, node: ast.Call) -> bool:
    """Return whether an argument of a call of NumPy's is the array for the result."""
    if not (name_of_function(function) or "").startswith("numpy."):
        return False
    if position >= len(node.args):
        return node.keywords[position - len(node.args)].arg == "out"
    place = result_position(function)
    return place is not None and position >= place


def only_reads(function: Any, position: int, node: ast.Call) -> bool:
    """Return whether a function of NumPy's or a builtin leaves an argument as it is."""
    if isinstance(function, np.ufunc):
        return position < function.nin and position < len(node.args)
    module, _, name = (name_of_function(function) or "").rpartition(".")
    if not module:
        return bool(name)  # a builtin
    is_numpy = module.partition(".")[0] == "numpy"
    has_out = any(k.arg == "out" for k in node.keywords)
    return is_numpy and not has_out and name not in WRITING_FUNCTIONS
