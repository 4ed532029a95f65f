"""Sums, products and means, in passes without atomics.

The order in which elements meet depends on the array's shape and strides alone, so that a result
has the same bits in every run and on every target.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from kerneldsl.utilities.tracebacks import shorten_errors
from stdlib_kernels.arrays import Array, accumulator_dtype, check_array, computing_dtype
from stdlib_kernels.reduce.calls import Axis, fold_call, reduced_axes
from stdlib_kernels.reduce.folding import Rule, add

__all__ = ["mean", "prod", "sum"]


def _product(a: Any, b: Any) -> Any:
    return a * b


def _quotient(total: Any, count: Any) -> Any:
    return total / count


@shorten_errors
def sum(
    x: Array,
    axis: Axis = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Add the elements of an array, all or along axes.

    Parameters
    ----------
    x : ndarray or device array
        Of any rank and layout; bool, integer, float or complex.
    axis : int or tuple of int, optional
        What is reduced; all axes by default.
    dtype : dtype, optional
        In which elements are added, and of the result; by default int64 for booleans and signed
        integers, uint64 for unsigned ones, and the array's own for others.
    out : array, optional
        Where the result goes, of the result's shape and dtype and of `x`'s kind.
    keepdims : bool
        Whether the result keeps the axes that are reduced, with an extent of 1.

    Returns
    -------
    NumPy scalar or array, or device array
        Of `x`'s kind; `out`, where it is given. Integers wrap around as in NumPy. float16 and
        bfloat16 add up as float32, and the sum is rounded once. The sum of no elements is 0.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        Where `x` is no array, or is of a dtype without a sum, there is no such axis, or `out` does
        not fit.

    See Also
    --------
    numpy.sum

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import sum
    >>> int(sum(np.arange(10, dtype=np.int32)))
    45
    >>> sum(np.arange(6).reshape(2, 3), axis=1).tolist()
    [3, 12]
    """
    check_array("x", x, halves=True)
    result = accumulator_dtype(x.dtype) if dtype is None else np.dtype(dtype)
    number = computing_dtype(result).type
    rule = Rule(op=add, identity=number(0), number=number)
    return fold_call(rule, x, axis, result, out=out, keepdims=keepdims)


@shorten_errors
def prod(
    x: Array,
    axis: Axis = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Multiply the elements of an array, all or along axes.

    Parameters and result are those of `sum`; the product of no elements is 1.

    Parameters
    ----------
    x : ndarray or device array
        Of any rank and layout; bool, integer, float or complex.
    axis : int or tuple of int, optional
        What is reduced; all axes by default.
    dtype : dtype, optional
        In which elements are multiplied, and of the result.
    out : array, optional
        Where the result goes.
    keepdims : bool
        Whether the result keeps the axes that are reduced, with an extent of 1.

    Returns
    -------
    NumPy scalar or array, or device array
        Of `x`'s kind; `out`, where it is given.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        As in `sum`.

    See Also
    --------
    numpy.prod

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import prod
    >>> int(prod(np.arange(1, 6)))
    120
    """
    check_array("x", x, halves=True)
    result = accumulator_dtype(x.dtype) if dtype is None else np.dtype(dtype)
    number = computing_dtype(result).type
    rule = Rule(op=_product, identity=number(1), number=number)
    return fold_call(rule, x, axis, result, out=out, keepdims=keepdims)


@shorten_errors
def mean(
    x: Array,
    axis: Axis = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Average the elements of an array, all or along axes.

    Parameters
    ----------
    x : ndarray or device array
        Of any rank and layout; bool, integer, float or complex.
    axis : int or tuple of int, optional
        What is reduced; all axes by default.
    dtype : dtype, optional
        In which elements are added, and of the result; by default float64 for booleans and
        integers, and the array's own for others.
    out : array, optional
        Where the result goes, of the result's shape and dtype and of `x`'s kind.
    keepdims : bool
        Whether the result keeps the axes that are reduced, with an extent of 1.

    Returns
    -------
    NumPy scalar or array, or device array
        Of `x`'s kind; `out`, where it is given. float16 and bfloat16 add up as float32. The mean of
        no elements is NaN.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        As in `sum`.

    Warns
    -----
    RuntimeWarning
        Where there are no elements.

    See Also
    --------
    numpy.mean

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import mean
    >>> mean(np.array([[1, 2], [3, 5]]), axis=0).tolist()
    [2.0, 3.5]
    """
    check_array("x", x, halves=True)
    result = np.dtype(dtype or (np.float64 if x.dtype.kind in "biu" else x.dtype))
    number = computing_dtype(result).type
    count = math.prod(x.shape[i] for i in reduced_axes(axis, x.ndim))
    if not count:
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
    # NaN, since complex numbers divided by 0 are not NaN in a kernel.
    rule = Rule(add, number(0), number, finish=_quotient, parameter=float(count or np.nan))
    return fold_call(rule, x, axis, result, out=out, keepdims=keepdims)
