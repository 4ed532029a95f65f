"""Norms of vectors, and their scalar product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
    Out,
    allocate,
    check_array,
    check_out,
    check_same_kind,
    computing_dtype,
    finish,
    on_device,
)
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import number_of
from stdlib_kernels.reduce.arrangement import arrange
from stdlib_kernels.reduce.calls import Axis, check_not_empty, fold_call
from stdlib_kernels.reduce.folding import (
    Rule,
    abs_squared,
    add,
    fold,
    larger,
    smaller,
    unchanged,
)

__all__ = ["dot", "norm"]


def _size(v: Any, w: Any, order: Any) -> Any:
    return abs(v)


#: Of an order: what combines, what becomes of an element, and what of all together.
_BY_ORDER = {
    0: (add, lambda v, w, order: v != 0, unchanged),
    1: (add, _size, unchanged),
    2: (add, lambda v, w, order: abs_squared(v), lambda total, order: math.sqrt(total)),
    math.inf: (larger, _size, unchanged),
    -math.inf: (smaller, _size, unchanged),
}
_BY_OTHERS = (add, lambda v, w, order: abs(v) ** order, lambda total, order: total ** (1 / order))
#: Products of numbers, and of booleans, and what combines them.
_PRODUCTS = (lambda v, w, parameter: v * w, add)
_PRODUCTS_OF_BOOLS = (lambda v, w, parameter: v & w, lambda a, b: a | b)


@repeated_function
def norm(
    x: Array, axis: Axis = None, *, ord: float = 2, out: Out = None, keepdims: bool = False
) -> Any:
    """Compute the norm of the elements of an array as a vector, of all or along axes.

    {parameters of a reduction}
    ord : float
        The norm's order p, of ``sum(abs(x) ** p) ** (1 / p)``; inf is the largest and -inf the
        smallest ``abs(x)``, and 0 counts what is not zero.
    {reduced}
        float64 for booleans and integers, else of `x`'s dtype, or its real part's; float16 and
        bfloat16 are computed as float32. Squares are not scaled: they overflow where those of the
        dtype do.
    {raises}
    kerneldsl.errors.ArgumentValueError
        Where the axes that are reduced have no elements, and `ord` is -inf.
    {see: numpy.linalg.vector_norm}
    {examples}
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    check_array("x", x, halves=True)
    given = np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype
    number = computing_dtype(given)
    real = np.empty(0, number).real.dtype
    ord = number_of("ord", ord)
    if ord == -math.inf:
        check_not_empty("norm of order -inf", x, axis)
    op, lift, root = _BY_ORDER.get(ord, _BY_OTHERS)
    identity = real.type(np.inf if ord == -math.inf else 0)
    rule = Rule(op, identity, number.type, lift=lift, finish=root, parameter=ord)
    result = real if given.kind == "c" else given
    return fold_call(rule, x, axis, result, out, keepdims)


@repeated_function
def dot(x: Array, y: Array, *, out: Out = None) -> Any:
    """Compute the scalar product of two vectors.

    {parameters}
    x : ndarray or device array of shape (n,)
        Of any layout; bool, integer, float or complex.
    y : array of shape (n,)
        Of `x`'s kind.
    out : array of rank 0, optional
        Where the result goes, of the result's dtype and of `x`'s kind.
    {returns: NumPy scalar, or device array of rank 0}
        Of NumPy's dtype for the two; `out`, where it is given. Nothing is conjugated. Integers
        wrap around in that dtype, and float16 and bfloat16 add up as float32.
    {raises and see: numpy.dot, stdlib_kernels.linalg.matmul}
    {examples}
    >>> int(dot(np.array([1, 2, 3]), np.array([4, 5, 6])))
    32
    """
    check_array("x", x, halves=True, ndim=1)
    check_array("y", y, halves=True, ndim=1)
    check_same_kind("x", x, "y", y)
    if x.shape != y.shape:
        raise ArgumentValueError(
            f"dot: x has {x.shape[0]} elements, and y {y.shape[0]}",
            value=(tuple(x.shape), tuple(y.shape)),
            limit="Both have the same number",
        )
    try:
        dtype = np.result_type(x.dtype, y.dtype)
    except TypeError as error:
        raise ArgumentTypeError(
            f"dot: x has the dtype {x.dtype}, and y {y.dtype}",
            value=(x.dtype, y.dtype),
            limit="NumPy has no dtype for both",
            remedy="Convert one of them",
        ) from error
    check_out(out, like=x, shape=(), dtype=dtype)
    left, right = on_device(x), on_device(y)
    number = computing_dtype(dtype).type
    lift, op = _PRODUCTS_OF_BOOLS if dtype.kind == "b" else _PRODUCTS
    rule = Rule(op, number(0), number, lift=lift)
    cut, _ = arrange(left, (0,))
    other, _ = arrange(right, (0,))
    result = allocate(left, (), dtype)
    fold(rule, cut.of(cut.inputs[0], other.inputs[0]), result.reshape((1, 1, 1)))
    return finish(result, like=x, out=out)
