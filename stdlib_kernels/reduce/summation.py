"""Sums, products, means, norms, and reductions by a function, without atomics.

The order of evaluation depends only on the array's shape and strides. So a result has the same bits
in every run and on every target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stdlib_kernels import parameters
from stdlib_kernels.checks import Array, Out, check_array
from stdlib_kernels.elementwise.calls import Number
from stdlib_kernels.functions import repeated_function, warn
from stdlib_kernels.operations import (
    abs_squared,
    add,
    identity_of,
    larger,
    multiply,
    smaller,
    unchanged,
)
from stdlib_kernels.reduce.folding import Axis, Rule, check_not_empty, fold_call, rule_of
from stdlib_kernels.reduce.masking import is_masked, masked, masked_mean

__all__ = ["mean", "norm", "prod", "reduce", "sum"]


def _quotient(total: Any, count: Any) -> Any:
    return total / count


def _total(name: str, said: str, op: Any, of_numbers: str, examples: tuple[str, str]) -> Any:
    """Return the sum or the product of elements."""

    def total(
        x: Array,
        axis: Axis = None,
        dtype: Any = None,
        out: Out = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Array | Number = True,
    ) -> Any:
        check_array("x", x, halves=True)
        result = parameters.dtype_of(dtype, parameters.accumulator_dtype(x.dtype))
        number = parameters.computing_dtype(result)
        rule = Rule(op, identity_of(op, number), number.type).beginning_with(initial)
        counted = masked(x, where, int(op is multiply))
        return fold_call(rule, counted, axis, result, out, keepdims)

    total.__name__ = total.__qualname__ = name
    total.__doc__ = f"""{said} the elements of an array, all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    dtype : dtype, optional
        Dtype of the computation and of the result. By default int64 for booleans and signed
        integers, uint64 for unsigned ones, and the dtype of the array for others.
    initial : number, optional
        A value that is combined with the result at the end.
    where : bool array, optional
        Selects elements; by default all. Same kind as `x`, and broadcast against `x`.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        Integers wrap around as in NumPy. float16 and bfloat16 are computed as float32, and the
        result is rounded once. {of_numbers}

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import {name}
    >>> int({name}(np.arange(1, 6, dtype=np.int32)))
    {examples[0]}
    >>> {name}(np.arange(6).reshape(2, 3), axis=1).tolist()
    {examples[1]}
    """
    return repeated_function(total)


sum = _total("sum", "Add", add, "The sum of no elements is 0.", ("15", "[3, 12]"))
prod = _total("prod", "Multiply", multiply, "The product of no elements is 1.", ("120", "[0, 60]"))


@repeated_function
def mean(
    x: Array,
    axis: Axis = None,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
    *,
    where: Array | Number = True,
) -> Any:
    """Average the elements of an array, all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    dtype : dtype, optional
        Dtype of the computation and of the result. By default float64 for booleans and integers,
        and the dtype of the array for others.
    where : bool array, optional
        Selects elements; by default all. Same kind as `x`, and broadcast against `x`.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        float16 and bfloat16 are added as float32. The mean of no elements is NaN.

    Warns
    -----
    RuntimeWarning
        If there are no elements, unless `where` excludes them.

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
    result = parameters.dtype_of(dtype, parameters.floating_dtype(x.dtype))
    number = parameters.computing_dtype(result).type
    count = math.prod(x.shape[i] for i in parameters.axes_of(axis, x.ndim))
    if not count:
        warn("Mean of empty slice")
    # Return NaN, since complex numbers divided by 0 are not NaN in a kernel.
    rule = Rule(add, number(0), number, finish=_quotient, parameter=float(count or np.nan))
    if is_masked(where):
        return masked_mean(x, where, axis, result, out, keepdims)
    return fold_call(rule, x, axis, result, out, keepdims)


@repeated_function
def reduce(
    x: Array,
    op: Callable[[Any, Any], Any],
    identity: Any,
    axis: Axis = None,
    *,
    dtype: Any = None,
    out: Out = None,
    keepdims: bool = False,
) -> Any:
    """Combine the elements of an array by a function, all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    op : function
        A function of two values that kernels can call: a plain function, a lambda, or a function
        decorated with `kerneldsl.func`.
        It must be associative and commutative.
        A function is compiled once. A new function with the same text is compiled again.
    identity : number
        A value with which `op` does not change any other: 0 for a sum, 1 for a product, -inf for
        a maximum of floats. It is combined with elements several
        times.
    dtype : dtype, optional
        Dtype of the computation and of the result; by default that of the array.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        float16 and bfloat16 are combined as float32. For no elements the result is `identity`.

    Raises
    ------
    kerneldsl.errors.KernelError
        If `op` cannot be compiled.

    See Also
    --------
    numpy.ufunc.reduce

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import reduce
    >>> reduce(np.array([[12, 18], [8, 20]]), lambda a, b: a | b, 0, axis=1).tolist()
    [30, 28]
    """
    check_array("x", x, halves=True)
    result = parameters.dtype_of(dtype, x.dtype)
    return fold_call(rule_of(op, identity, result), x, axis, result, out, keepdims)


def _size(v: Any, w: Any, order: Any) -> Any:
    return abs(v)


#: Function that combines, and those applied to an element and to the result, by order.
_BY_ORDER = {
    0: (add, lambda v, w, order: v != 0, unchanged),
    1: (add, _size, unchanged),
    2: (add, lambda v, w, order: abs_squared(v), lambda total, order: math.sqrt(total)),
    math.inf: (larger, _size, unchanged),
    -math.inf: (smaller, _size, unchanged),
}
_BY_OTHERS = (add, lambda v, w, order: abs(v) ** order, lambda total, order: total ** (1 / order))


@repeated_function
def norm(
    x: Array, *, axis: Axis = None, ord: float = 2, out: Out = None, keepdims: bool = False
) -> Any:
    """Compute the vector norm of the elements of an array, of all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; by default all.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    ord : float
        The order p of the norm ``sum(abs(x) ** p) ** (1 / p)``. For inf it is the largest and for
        -inf the smallest ``abs(x)``; for 0, the number of nonzero elements.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given.
        The dtype is float64 for booleans and integers, else that of `x` or of its real part.
        float16 and bfloat16 are computed as float32. Squares are not scaled, and may overflow.

    Raises
    ------
    kerneldsl.errors.ArgumentValueError
        If the reduced axes have no elements, and `ord` is -inf.

    See Also
    --------
    numpy.linalg.vector_norm

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import norm
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    check_array("x", x, halves=True)
    given = parameters.floating_dtype(x.dtype)
    number = parameters.computing_dtype(given)
    real = parameters.real_dtype(number)
    ord = parameters.number_of("ord", ord)
    if ord == -math.inf:
        check_not_empty("norm of order -inf", x, axis)
    op, lift, root = _BY_ORDER.get(ord, _BY_OTHERS)
    identity = real.type(np.inf if ord == -math.inf else 0)
    rule = Rule(op, identity, number.type, lift=lift, finish=root, parameter=ord)
    result = real if given.kind == "c" else given
    return fold_call(rule, x, axis, result, out, keepdims)
