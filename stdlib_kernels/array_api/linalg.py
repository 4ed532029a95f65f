"""The part of the standard's extension `linalg` that needs no decomposition of a matrix.

References
----------
Consortium for Python Data API Standards, "Python array API standard", version 2024.12, "Linear
algebra extension".
"""

from __future__ import annotations

import builtins
import math
from typing import Any

from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.array_api.binary import multiply, subtract
from stdlib_kernels.array_api.manipulation import concat, moveaxis, reshape
from stdlib_kernels.array_api.products import last_axis, matmul, matrix_transpose, tensordot, vecdot
from stdlib_kernels.checks import Array, check_array, check_matrices, check_same_kind
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import axis_of, integer_of, wrong_value
from stdlib_kernels.reduce import max, min, norm, sum
from stdlib_kernels.reduce.folding import Axis

__all__ = [
    "cross",
    "diagonal",
    "matmul",
    "matrix_norm",
    "matrix_transpose",
    "outer",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]


@library_function
def cross(x1: Array, x2: Array, /, *, axis: int = -1) -> Any:
    """Compute the cross products of vectors of three elements.

    Parameters
    ----------
    x1, x2 : array
        Arrays of the same kind with three elements along the axis. Other axes are broadcast.
    axis : int
        The axis of the vectors.

    Returns
    -------
    array
        The products, with NumPy's dtype for both arrays.

    See Also
    --------
    numpy.linalg.cross

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import linalg
    >>> linalg.cross(np.array([1, 0, 0]), np.array([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    vectors = []
    for name, each in (("x1", x1), ("x2", x2)):
        check_array(name, each, halves=True)
        check_same_kind(name, each, "x1", x1)
        at = axis_of(axis, each.ndim) - each.ndim
        if each.shape[at] != 3:
            raise wrong_value(name, each, f"It must have three elements along axis {axis}")
        vectors.append(last_axis(each, at))
    v, w = ([each[..., n : n + 1] for n in range(3)] for each in vectors)
    parts = [
        subtract(multiply(v[i], w[j]), multiply(v[j], w[i])) for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return moveaxis(concat(parts, axis=-1), -1, axis_of(axis, x1.ndim) - x1.ndim)


@library_function
def diagonal(x: Array, /, *, offset: int = 0) -> Any:
    """Return a diagonal of each matrix.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    offset : int
        The diagonal: 0 is the main one, 1 the one above.

    Returns
    -------
    array
        The diagonals along the last axis; a view if `x` is contiguous.

    See Also
    --------
    numpy.linalg.diagonal

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import linalg
    >>> linalg.diagonal(np.array([[1, 2], [3, 4]])).tolist()
    [1, 4]
    """
    check_matrices(x)
    rows, columns = x.shape[-2:]
    above = integer_of("offset", offset)
    length = builtins.min(rows + builtins.min(above, 0), columns - builtins.max(above, 0))
    first = above if above >= 0 else -above * columns
    flat = reshape(x, (*x.shape[:-2], rows * columns))
    step = columns + 1
    return flat[..., first : first + builtins.max(length, 0) * step : step]


@library_function
def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Any:
    """Compute a norm of each matrix.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    keepdims : bool
        Whether the result keeps the last two axes, with an extent of 1.
    ord : {"fro", 1, -1, inf, -inf}
        ``"fro"``: the root of the sum of squares. 1 and -1: the largest and the smallest sum of
        absolute values of a column; inf and -inf: of a row. Norms by singular values do not exist.

    Returns
    -------
    array
        The norms, with the dtype of `norm`.

    See Also
    --------
    numpy.linalg.matrix_norm

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import linalg
    >>> float(linalg.matrix_norm(np.array([[3.0, 0.0], [4.0, 0.0]]), ord=1))
    7.0
    """
    check_matrices(x)
    is_kept = read_flag("keepdims", keepdims)
    if ord == "fro":
        return norm(x, axis=(-2, -1), keepdims=is_kept)
    if ord not in (1, -1, math.inf, -math.inf):
        limit = "It must be 'fro', 1, -1, inf or -inf; the library computes no singular values"
        raise wrong_value("ord", ord, limit, "Use numpy.linalg of x.copy_to_host()")
    summed = -2 if ord in (1, -1) else -1
    sums = norm(x, axis=summed, ord=1, keepdims=True)
    return (max if ord > 0 else min)(sums, (-2, -1), keepdims=is_kept)


@library_function
def outer(x1: Array, x2: Array, /) -> Any:
    """Multiply each element of a vector by each element of another vector.

    Parameters
    ----------
    x1, x2 : array of shape (n,) and (m,)
        Vectors of the same kind.

    Returns
    -------
    array of shape (n, m)
        The products, with NumPy's dtype for both arrays.

    See Also
    --------
    numpy.linalg.outer

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import linalg
    >>> linalg.outer(np.array([1, 2]), np.array([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    for name, each in (("x1", x1), ("x2", x2)):
        check_array(name, each, halves=True, ndim=1)
    return multiply(x1[:, None], x2[None, :])


@library_function
def trace(x: Array, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Add the elements of a diagonal of each matrix.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    offset : int
        The diagonal: 0 is the main one, 1 the one above.
    dtype : dtype, optional
        Dtype of the computation and of the result. By default int64 for booleans and signed
        integers, uint64 for unsigned ones, and the dtype of the array for others.

    Returns
    -------
    array
        The sums.

    See Also
    --------
    numpy.linalg.trace

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import linalg
    >>> int(linalg.trace(np.array([[1, 2], [3, 4]])))
    5
    """
    return sum(diagonal(x, offset=offset), -1, dtype=dtype)


@library_function
def vector_norm(x: Array, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Any:
    """Compute the norm of the elements as a vector, of all or along axes.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int or tuple of int, optional
        The axes to reduce; all axes by default.
    keepdims : bool
        Whether the result keeps the reduced axes, with an extent of 1.
    ord : float
        The order p of the norm ``sum(abs(x) ** p) ** (1 / p)``; see `stdlib_kernels.reduce.norm`.

    Returns
    -------
    array
        The norms.

    See Also
    --------
    numpy.linalg.vector_norm

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import linalg
    >>> float(linalg.vector_norm(np.array([3.0, 4.0])))
    5.0
    """
    return norm(x, axis=axis, ord=ord, keepdims=keepdims)
