"""Norms of vectors, and their scalar product."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError, ArgumentValueError
from stdlib_kernels.arrays import (
    Array,
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
from stdlib_kernels.reduce.folding import Rule, add, fold, larger, smaller

__all__ = ["dot", "norm"]


def _square(v: Any, w: Any, order: Any) -> Any:
    return v.real * v.real + v.imag * v.imag


def _size(v: Any, w: Any, order: Any) -> Any:
    return abs(v)


def _is_there(v: Any, w: Any, order: Any) -> Any:
    return v != 0


def _power(v: Any, w: Any, order: Any) -> Any:
    return abs(v) ** order


def _root(total: Any, order: Any) -> Any:
    return math.sqrt(total)


def _order_root(total: Any, order: Any) -> Any:
    return total ** (1 / order)


def _times(v: Any, w: Any, parameter: Any) -> Any:
    return v * w


def _and(v: Any, w: Any, parameter: Any) -> Any:
    return v & w


def _or(a: Any, b: Any) -> Any:
    return a | b


@repeated_function
def norm(
    x: Array,
    axis: Axis = None,
    *,
    ord: float = 2,
    out: Array | None = None,
    keepdims: bool = False,
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

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import norm
    >>> float(norm(np.array([3.0, 4.0])))
    5.0
    """
    check_array("x", x, halves=True)
    given = np.dtype(np.float64) if x.dtype.kind in "biu" else x.dtype
    number = computing_dtype(given)
    real = np.empty(0, number).real.dtype
    zero, ord = real.type(0), number_of("ord", ord)
    if math.isinf(ord):
        if ord < 0:
            check_not_empty("norm of order -inf", x, axis)
        op, identity = (larger, zero) if ord > 0 else (smaller, real.type(np.inf))
        rule = Rule(op, identity, number.type, lift=_size)
    elif ord == 2:
        rule = Rule(add, zero, number.type, lift=_square, finish=_root)
    elif ord in (0, 1):
        rule = Rule(add, zero, number.type, lift=_size if ord else _is_there)
    else:
        rule = Rule(add, zero, number.type, lift=_power, finish=_order_root, parameter=float(ord))
    result = real if given.kind == "c" else given
    return fold_call(rule, x, axis, result, out=out, keepdims=keepdims)


@repeated_function
def dot(x: Array, y: Array, *, out: Array | None = None) -> Any:
    """Compute the scalar product of two vectors.

    Parameters
    ----------
    x : ndarray or device array of shape (n,)
        Of any layout; bool, integer, float or complex.
    y : array of shape (n,)
        Of `x`'s kind.
    out : array of rank 0, optional
        Where the result goes, of the result's dtype and of `x`'s kind.

    Returns
    -------
    NumPy scalar, or device array of rank 0
        Of NumPy's dtype for the two; `out`, where it is given. Nothing is conjugated. Integers
        wrap around in that dtype, and float16 and bfloat16 add up as float32.

    Raises
    ------
    kerneldsl.errors.ArgumentError
        Where one is no vector of numbers, or `out` does not fit.
    kerneldsl.errors.ArgumentValueError
        Where they are not of one length.

    {see: numpy.dot, stdlib_kernels.linalg.matmul}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import dot
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
    rule = Rule(op=add, identity=number(0), number=number, lift=_times)
    if dtype.kind == "b":
        rule = Rule(op=_or, identity=number(0), number=number, lift=_and)
    cut, _ = arrange(left, (0,))
    other, _ = arrange(right, (0,))
    result = allocate(left, (), dtype)
    fold(rule, cut.of(cut.inputs[0], other.inputs[0]), result.reshape((1, 1, 1)))
    return finish(result, like=x, out=out)
