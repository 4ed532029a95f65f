"""Products of matrices and vectors, and sums of products over axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels.array_api.binary import multiply
from stdlib_kernels.array_api.manipulation import reshape
from stdlib_kernels.array_api.unary import conj
from stdlib_kernels.checks import Array, check_array, check_matrices, check_same_kind
from stdlib_kernels.functions import library_function
from stdlib_kernels.linalg import matmul
from stdlib_kernels.parameters import axis_of, common_dtype, each_axis_of, integer_of
from stdlib_kernels.reduce import sum

__all__ = ["last_axis", "matmul", "matrix_transpose", "tensordot", "vecdot"]


@library_function
def matrix_transpose(x: Array, /) -> Any:
    """Exchange the last two axes, as a view.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.

    Returns
    -------
    array
        Same kind and dtype as `x`.

    See Also
    --------
    numpy.matrix_transpose

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import matrix_transpose
    >>> matrix_transpose(np.zeros((2, 3, 4))).shape
    (2, 4, 3)
    """
    check_matrices(x)
    return np.swapaxes(x, -1, -2) if isinstance(x, np.ndarray) else x.mT


@library_function
def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    """Compute scalar products of vectors along an axis; the first factor is conjugated.

    Parameters
    ----------
    x1, x2 : array
        Arrays of one kind. They are broadcast against each other, except for the axis, which has
        the same extent in both.
    axis : int
        The axis of the vectors: negative, counted from the last axis, or from 0 of both.

    Returns
    -------
    array
        NumPy's dtype for the two, without the axis.

    See Also
    --------
    numpy.vecdot

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import vecdot
    >>> int(vecdot(np.array([1, 2, 3]), np.array([4, 5, 6])))
    32
    """
    for name, each in (("x1", x1), ("x2", x2)):
        check_array(name, each, halves=True)
        check_same_kind(name, each, "x1", x1)
    left, right = (axis_of(axis, each.ndim) - each.ndim for each in (x1, x2))
    if x1.shape[left] != x2.shape[right]:
        raise _unequal(x1, x2)
    x1, x2 = (last_axis(each, at) for each, at in ((x1, left), (x2, right)))
    dtype = common_dtype(x1, x2)
    products = multiply(conj(x1) if x1.dtype.kind == "c" else x1, x2)
    return sum(products, -1, dtype=dtype)


def last_axis(x: Array, axis: int) -> Array:
    """Return a view with an axis, counted from the last one, as the last."""
    order = [n for n in range(x.ndim) if n != x.ndim + axis]
    return x if axis == -1 else x.transpose((*order, x.ndim + axis))


@library_function
def tensordot(x1: Array, x2: Array, /, *, axes: Any = 2) -> Any:
    """Multiply two arrays, and add up the products over axes of both.

    Parameters
    ----------
    x1, x2 : array
        Arrays of one kind.
    axes : int or pair of sequences of int
        A number: so many last axes of `x1`, and first axes of `x2`. Or the axes of `x1`, and for
        each the axis of `x2`.

    Returns
    -------
    array
        The other axes of `x1`, then those of `x2`. NumPy's dtype for the two.

    See Also
    --------
    numpy.tensordot

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import tensordot
    >>> tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    for name, each in (("x1", x1), ("x2", x2)):
        check_array(name, each, halves=True)
        check_same_kind(name, each, "x1", x1)
    if isinstance(axes, tuple | list):
        left, right = (
            each_axis_of(tuple(each) if isinstance(each, tuple | list) else each, x.ndim)
            for each, x in zip(axes, (x1, x2), strict=True)
        )
    else:
        count = integer_of("axes", axes, 0, min(x1.ndim, x2.ndim))
        left, right = tuple(range(x1.ndim - count, x1.ndim)), tuple(range(count))
    if [x1.shape[n] for n in left] != [x2.shape[n] for n in right]:
        raise _unequal(x1, x2)
    rows = [n for n in range(x1.ndim) if n not in left]
    columns = [n for n in range(x2.ndim) if n not in right]
    shape = *(x1.shape[n] for n in rows), *(x2.shape[n] for n in columns)
    depth = math.prod(x1.shape[n] for n in left)
    first = x1.transpose((*rows, *left)) if x1.ndim else x1
    second = x2.transpose((*right, *columns)) if x2.ndim else x2
    height, width = math.prod(x1.shape[n] for n in rows), math.prod(x2.shape[n] for n in columns)
    product = matmul(reshape(first, (height, depth)), reshape(second, (depth, width)))
    return reshape(product, shape)


def _unequal(x1: Array, x2: Array) -> ArgumentValueError:
    return ArgumentValueError(
        f"arrays of shapes {tuple(x1.shape)} and {tuple(x2.shape)} are multiplied along axes of "
        "different extents",
        value=(tuple(x1.shape), tuple(x2.shape)),
        limit="The axes that a product sums over must have equal extents",
        remedy="Name other axes",
    )
