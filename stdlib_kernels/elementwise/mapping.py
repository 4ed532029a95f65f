"""Elementwise functions: `map` of any function of numbers, choices, bounds and conversions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentValueError
from kerneldsl.utilities.formatting import format_count
from stdlib_kernels import parameters
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.copying import is_true, itself
from stdlib_kernels.elementwise.calls import (
    Number,
    checked_operands,
    map_call,
    result_dtypes,
    widened,
)
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.operations import larger, smaller

__all__ = ["astype", "clip", "map", "where"]


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    return x if condition != 0 else y


def _bounded(v: Any, low: Any, high: Any) -> Any:
    return smaller(larger(v, low), high)


@repeated_function
def where(
    condition: Array | Number, x: Array | Number, y: Array | Number, *, out: Any = None
) -> Any:
    """Choose each element from one of two arrays.

    Parameters
    ----------
    condition : array or number
        If it is not 0, the result is the element of `x`, else that of `y`. Any rank and layout.
        bool, integer, float or complex.
    x, y : array or number
        Same kind as `condition`. The three are broadcast against each other.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array
        Same kind as the arrays, and NumPy's dtype for `x` and `y`. `out` if it is given.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If no argument is an array, or the arrays do not fit each other.

    See Also
    --------
    numpy.where

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.elementwise import where
    >>> where(np.array([True, False]), np.array([1, 2]), 0).tolist()
    [1, 0]
    """
    like = checked_operands([("condition", condition), ("x", x), ("y", y)])
    dtype = parameters.common_dtype(x, y)
    number = parameters.computing_dtype(dtype)
    values = [condition, _number("x", x, dtype), _number("y", y, dtype)]
    to = [widened(condition), number.type, number.type]
    return map_call(_chosen, values, [dtype], [out], like, convert=to, exact=True)[0]


@repeated_function
def clip(
    x: Array,
    min: Array | Number | None = None,
    max: Array | Number | None = None,
    out: Any = None,
) -> Any:
    """Limit each element to a range.

    Parameters
    ----------
    x : array
        bool, integer or float; any rank and layout.
    min, max : array or number, optional
        The bounds, which are broadcast against `x`; by default none. If `min` is above `max`, the
        result is `max`.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array
        Same kind as `x`, and NumPy's dtype for all three. `out` if it is given. If one of the three
        is NaN, the result is NaN.

    See Also
    --------
    numpy.clip

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.elementwise import clip
    >>> clip(np.array([-3, 1, 9]), 0, 5).tolist()
    [0, 1, 5]
    """
    check_array("x", x, kinds="biuf", halves=True)
    given: dict[str, Any] = {"x": x, "min": min, "max": max}
    given = {name: value for name, value in given.items() if value is not None}
    like = checked_operands(given.items())
    dtype = parameters.common_dtype(*given.values())
    if dtype.kind in "iu":
        # An int below all numbers of the dtype, or above them, bounds none of them, as in NumPy.
        ends = np.iinfo(dtype)
        for name, end, place in (("min", ends.min, 1), ("max", ends.max, 0)):
            if type(given.get(name)) is int:
                given[name] = sorted((given[name], end))[place]
    function: Any = {(True, True): _bounded, (True, False): larger, (False, True): smaller}.get(
        ("min" in given, "max" in given), itself
    )
    values = [_number(name, value, dtype) for name, value in given.items()]
    to = [parameters.computing_dtype(dtype).type] * len(values)
    return map_call(function, values, [dtype], [out], like, convert=to, exact=True)[0]


@repeated_function
def astype(x: Array, dtype: Any, *, out: Out = None) -> Any:
    """Convert the elements to another dtype.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    dtype : dtype
        The new dtype.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array
        A new array with the same shape and kind as `x`; `out` if it is given. If the dtype cannot
        represent a float, the result depends on the device.

    See Also
    --------
    numpy.ndarray.astype

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.elementwise import astype
    >>> astype(np.array([-1.5, 2.5]), np.int32).tolist()
    [-1, 2]
    """
    check_array("x", x, halves=True)
    if x.dtype.kind == "c" and dtype is not None and parameters.dtype_of(dtype, None).kind == "b":
        return map_call(is_true, [x], [np.dtype(bool)], [out], x)[0]
    found = parameters.dtype_of(dtype, x.dtype)
    return map_call(itself, [x], [found], [out], x, convert=[widened(x)])[0]


def _number(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array as it is, and a number in the dtype in which a result is computed."""
    if not parameters.is_number(value):
        return value
    return parameters.computing_dtype(dtype).type(parameters.scalar_of(name, value, dtype))


@repeated_function
def map(
    f: Callable[..., Any],
    *arrays: Array | Number,
    dtype: Any = None,
    out: Array | tuple[Array | None, ...] | None = None,
) -> Any:
    """Call a function for each element of arrays, which are broadcast against each other.

    This is one kernel, which reads each element once and writes each result once.

    Parameters
    ----------
    f : function, or SymPy expression
        A function with one parameter for each of `arrays`, which kernels can call: a plain
        function, a lambda, or a function decorated with `kerneldsl.func`. It returns a number or a
        tuple of numbers. It is compiled once; a new function with the same text is compiled again.
        For an expression, the arrays are its symbols in the order of their names.
    *arrays : array or number
        NumPy arrays, device arrays, or arrays of another library; at least one. Any rank and
        layout. bool, integer, float or complex. float16 and bfloat16 are passed to `f` as float32.
        A Python int takes the dtype of the integer arrays.
    dtype : dtype, or tuple of dtype, optional
        Dtype of the results. The default is the dtype of `f` in a kernel. It is not wider than
        NumPy's dtype for the arrays, and for uint64 arrays it is not int64.
    out : array, or tuple of array, optional
        Arrays for the results, with their shape and dtype and the kind of the arrays. They may be
        among the arrays.

    Returns
    -------
    array, or tuple of array
        The broadcast shape, and the same kind as the arrays.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        If `arrays` has no array, or an argument does not fit the others.
    kerneldsl.errors.KernelError
        If `f` cannot be compiled.

    See Also
    --------
    numpy.vectorize, numpy.frompyfunc

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.elementwise import map
    >>> import math
    >>> map(lambda x, y: math.sqrt(x * x + y * y), np.array([3.0, 5.0]), np.array([[4.0], [12.0]]))
    array([[ 5.        ,  6.40312424],
           [12.36931688, 13.        ]])
    >>> map(lambda x: (x // 3, x % 3), np.array([7, 8]))
    (array([2, 2]), array([1, 2]))
    """
    function = _function(f, arrays)
    named = [(f"arrays[{n}]", each) for n, each in enumerate(arrays)]
    like, common = checked_operands(named), parameters.common_dtype(*arrays)
    operands = [parameters.weak_scalar_of(name, each, common) for name, each in named]
    dtypes = result_dtypes(function, operands, dtype)
    is_tuple = len(dtypes) > 1
    outs = out if isinstance(out, tuple) else (out,) * (1 if out is not None else len(dtypes))
    if len(outs) != len(dtypes):
        raise ArgumentValueError(
            f"out has {format_count(len(outs), 'array')}, and there are {len(dtypes)} results",
            value=len(outs),
            limit="There must be an array, or None, for each result",
            remedy="Give a tuple of as many",
        )
    found = map_call(function, operands, dtypes, outs, like)
    return tuple(found) if is_tuple or isinstance(out, tuple) else found[0]


def _function(f: Any, arrays: Sequence[Any]) -> Any:
    """Return the function, or for an expression a function of its symbols."""
    sympy = sys.modules.get("sympy")
    if sympy is None or not isinstance(f, sympy.Basic):
        return parameters.function_of("f", f)
    names = sorted(str(each) for each in f.free_symbols)  # map is the function above
    if len(names) != len(arrays):
        raise ArgumentValueError(
            f"the expression has the symbols {', '.join(names) or 'of none'}, and the "
            f"call {format_count(len(arrays), 'array')}",
            value=len(arrays),
            limit="There must be an array for each symbol, in the order of their names",
            remedy="Pass as many, or put numbers in the place of symbols by .subs(…)",
        )
    from kerneldsl.symbolic.element_kernels import function_for

    return function_for(f, arrays)
