"""Sums, products, means, and what a function of the caller's comes to, in passes without atomics.

The order in which elements meet depends on the array's shape and strides alone, so that a result
has the same bits in every run and on every target.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stdlib_kernels.arrays import Array, Out, accumulator_dtype, check_array, computing_dtype
from stdlib_kernels.functions import repeated_function, warn
from stdlib_kernels.parameters import axes_of, dtype_of, function_of, scalar_of
from stdlib_kernels.reduce.calls import Axis, fold_call
from stdlib_kernels.reduce.folding import Rule, add, multiply

__all__ = ["mean", "prod", "reduce", "sum"]


def _quotient(total: Any, count: Any) -> Any:
    return total / count


@repeated_function
def sum(
    x: Array, axis: Axis = None, *, dtype: Any = None, out: Out = None, keepdims: bool = False
) -> Any:
    """Add the elements of an array, all or along axes.

    {parameters of a reduction}
    {accumulating dtype}
    {reduced}
        Integers wrap around as in NumPy. float16 and bfloat16 add up as float32, and the sum is
        rounded once. The sum of no elements is 0.
    {raises and see: numpy.sum}
    {examples}
    >>> int(sum(np.arange(10, dtype=np.int32)))
    45
    >>> sum(np.arange(6).reshape(2, 3), axis=1).tolist()
    [3, 12]
    """
    check_array("x", x, halves=True)
    result = dtype_of(dtype, accumulator_dtype(x.dtype))
    number = computing_dtype(result).type
    rule = Rule(op=add, identity=number(0), number=number)
    return fold_call(rule, x, axis, result, out, keepdims)


@repeated_function
def prod(
    x: Array, axis: Axis = None, *, dtype: Any = None, out: Out = None, keepdims: bool = False
) -> Any:
    """Multiply the elements of an array, all or along axes.

    {parameters of a reduction}
    dtype : dtype, optional
        In which elements are multiplied, and of the result; by default that of `sum`.
    {reduced}
        The product of no elements is 1.
    {raises and see: numpy.prod}
    {examples}
    >>> int(prod(np.arange(1, 6)))
    120
    """
    check_array("x", x, halves=True)
    result = dtype_of(dtype, accumulator_dtype(x.dtype))
    number = computing_dtype(result).type
    rule = Rule(op=multiply, identity=number(1), number=number)
    return fold_call(rule, x, axis, result, out, keepdims)


@repeated_function
def mean(
    x: Array, axis: Axis = None, *, dtype: Any = None, out: Out = None, keepdims: bool = False
) -> Any:
    """Average the elements of an array, all or along axes.

    {parameters of a reduction}
    dtype : dtype, optional
        In which elements are added, and of the result; by default float64 for booleans and
        integers, and the array's own for others.
    {reduced}
        float16 and bfloat16 add up as float32. The mean of no elements is NaN.
    {raises}

    Warns
    -----
    RuntimeWarning
        Where there are no elements.
    {see: numpy.mean}
    {examples}
    >>> mean(np.array([[1, 2], [3, 5]]), axis=0).tolist()
    [2.0, 3.5]
    """
    check_array("x", x, halves=True)
    result = dtype_of(dtype, np.float64 if x.dtype.kind in "biu" else x.dtype)
    number = computing_dtype(result).type
    count = math.prod(x.shape[i] for i in axes_of(axis, x.ndim))
    if not count:
        warn("Mean of empty slice")
    # NaN, since complex numbers divided by 0 are not NaN in a kernel.
    rule = Rule(add, number(0), number, finish=_quotient, parameter=float(count or np.nan))
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
    """Combine the elements of an array two by two, all or along axes.

    {parameters of a reduction}
    {operator: It must be associative and commutative, as elements meet in any order.}
    {reduced}
        float16 and bfloat16 are combined as float32. No elements come to `identity`.
    {raises}
    kerneldsl.errors.KernelError
        Where `op` cannot be compiled.
    {see: numpy.ufunc.reduce}
    {examples}
    >>> reduce(np.array([[12, 18], [8, 20]]), lambda a, b: a | b, 0, axis=1).tolist()
    [30, 28]
    """
    check_array("x", x, halves=True)
    result = dtype_of(dtype, x.dtype)
    number = computing_dtype(result)
    rule = Rule(function_of("op", op), scalar_of("identity", identity, number), number.type)
    return fold_call(rule, x, axis, result, out, keepdims)
