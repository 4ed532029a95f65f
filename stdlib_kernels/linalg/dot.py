"""Sums of products over an axis of two arrays: of vectors, matrices and arrays of any rank."""

from __future__ import annotations

import math
from typing import Any

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.arrays import allocate, contiguous, finish, on_device
from stdlib_kernels.checks import Array, Out, check_array, check_out, check_same_kind
from stdlib_kernels.elementwise.calls import map_call
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.linalg.product import matmul
from stdlib_kernels.movement.permuting import permuted
from stdlib_kernels.operations import add, multiply
from stdlib_kernels.parameters import common_dtype, computing_dtype, wrong_value
from stdlib_kernels.reduce.arrangement import arrange
from stdlib_kernels.reduce.folding import Rule, fold

__all__ = ["dot"]


def _logical_and(a: Any, b: Any) -> Any:
    return a & b


#: The function of two elements and the one that folds its results: multiply and add, for booleans
#: "and" and "or". `Rule.lift` passes a third argument, which is not used.
_OF_NUMBERS = (lambda v, w, _: v * w, add)
_OF_BOOLS = (lambda v, w, _: v & w, lambda a, b: a | b)


@repeated_function
def dot(x: Array, y: Array, out: Out = None) -> Any:
    """Multiply vectors, matrices, and arrays of any rank.

    Products are summed over the last axis of `x`, and over the last but one axis of `y`. A vector
    `y` is summed over its axis. An array without axes multiplies each element of the other one.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    y : array
        Same kind as `x`. Any rank and layout.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    NumPy scalar or array, or device array
        Same kind as `x`; `out` if it is given. The dtype is NumPy's for the two. The axes are the
        other axes of `x`, followed by those of `y`. Nothing is conjugated. Integers wrap around,
        and float16 and bfloat16 are added as float32.

    See Also
    --------
    numpy.dot

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.linalg import dot
    >>> int(dot(np.array([1, 2, 3]), np.array([4, 5, 6])))
    32
    >>> dot(np.array([[1, 2], [3, 4]]), np.array([1, 10])).tolist()
    [21, 43]
    >>> dot(np.ones((2, 3)), np.ones((4, 3, 5))).shape
    (2, 4, 5)
    """
    check_array("x", x, halves=True)
    check_array("y", y, halves=True)
    check_same_kind("y", y, "x", x)
    dtype = common_dtype(x, y)
    if out is not None and getattr(out, "dtype", dtype) != dtype:
        limit = f"The result has the dtype {dtype}"
        raise wrong_value("out", out.dtype, limit, "Omit it, or make one of that dtype")
    if not (x.ndim and y.ndim):
        product = _logical_and if dtype.kind == "b" else multiply
        to = [computing_dtype(dtype).type] * 2
        return map_call(product, [x, y], [dtype], [out], x, convert=to, exact=True)[0]
    _check_extents(x, y)
    if x.ndim == y.ndim == 1:
        return _of_vectors(x, y, out)
    return matmul(x, y, out) if x.ndim == 1 or y.ndim <= 2 else _of_stacks(x, y, out)


def _check_extents(x: Array, y: Array) -> None:
    summed = y.shape[-2:][0]  # the last but one, or of a vector the only one
    if x.shape[-1] != summed:
        raise ArgumentValueError(
            f"dot: x of shape {tuple(x.shape)} and y of shape {tuple(y.shape)} do not fit",
            value=(tuple(x.shape), tuple(y.shape)),
            limit="The last axis of x is as long as the last but one of y, or its only one",
            remedy="Transpose one of them, or reshape it",
        )


def _of_vectors(x: Array, y: Array, out: Out) -> Any:
    """Return the scalar product."""
    dtype = common_dtype(x, y)
    check_out(out, like=x, shape=(), dtype=dtype)
    number = computing_dtype(dtype).type
    lift, op = _OF_BOOLS if dtype.kind == "b" else _OF_NUMBERS
    rule = Rule(op, number(0), number, lift=lift)
    of_x, of_y = (arrange(on_device(each), (0,))[0] for each in (x, y))
    both = of_x.of(*of_x.inputs, *of_y.inputs)
    result = allocate(both.inputs[0], (), dtype)
    fold(rule, both, result.reshape((1, 1, 1)))
    return finish(result, like=x, out=out)


def _of_stacks(x: Array, y: Array, out: Out) -> Any:
    """Return the product of arrays that have other axes, as a product of two matrices."""
    shape = (*x.shape[:-1], *y.shape[:-2], y.shape[-1])
    check_out(out, like=x, shape=shape, dtype=common_dtype(x, y))
    depth, last = x.shape[-1], y.ndim - 1
    rows = contiguous(on_device(x)).reshape((math.prod(x.shape[:-1]), depth))
    columns = permuted(on_device(y), (last - 1, *range(last - 1), last), None)
    width = math.prod(shape[x.ndim - 1 :])
    product = matmul(rows, columns.reshape((depth, width)))
    return finish(product.reshape(shape), like=x, out=out)
