"""Arrays of one value, and diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels.array_api.conversion import asarray, documented_creation
from stdlib_kernels.arrays import contiguous
from stdlib_kernels.checks import check_matrices
from stdlib_kernels.parameters import integer_of

__all__ = [
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]


@documented_creation
def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of zeros.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    {where}

    {returns}
    >>> xp.zeros(2).tolist()
    [0.0, 0.0]
    """
    return kd.zeros(shape, np.float64 if dtype is None else dtype, device=device)


@documented_creation
def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of ones.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    {where}

    {returns}
    >>> xp.ones(2, dtype=xp.int32).tolist()
    [1, 1]
    """
    return kd.ones(shape, np.float64 if dtype is None else dtype, device=device)


@documented_creation
def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array with undefined elements.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    {where}

    {returns}
    >>> xp.empty((2, 3)).shape
    (2, 3)
    """
    return kd.empty(shape, np.float64 if dtype is None else dtype, device=device)


@documented_creation
def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of one value.

    Parameters
    ----------
    shape : int or tuple of int
        Extents.
    fill_value : number
        The value. By default the dtype is NumPy's for it.
    {where}

    {returns}
    >>> xp.full(2, 7).tolist()
    [7, 7]
    """
    return kd.full(shape, fill_value, dtype, device=device)


@documented_creation
def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of zeros, of another array's shape.

    Parameters
    ----------
    {like}

    {returns}
    >>> xp.zeros_like(xp.ones(2)).tolist()
    [0.0, 0.0]
    """
    return kd.zeros_like(x, dtype, device=device)


@documented_creation
def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of ones, of another array's shape.

    Parameters
    ----------
    {like}

    {returns}
    >>> xp.ones_like(xp.zeros(2)).tolist()
    [1.0, 1.0]
    """
    return kd.ones_like(x, dtype, device=device)


@documented_creation
def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> kd.DeviceArray:
    """Make an array of another array's shape, with undefined elements.

    Parameters
    ----------
    {like}

    {returns}
    >>> xp.empty_like(xp.zeros(2)).shape
    (2,)
    """
    return kd.empty_like(x, dtype, device=device)


@documented_creation
def full_like(
    x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None
) -> kd.DeviceArray:
    """Make an array of one value, of another array's shape.

    Parameters
    ----------
    {like}
    fill_value : number
        The value.

    {returns}
    >>> xp.full_like(xp.zeros(2), 7).tolist()
    [7.0, 7.0]
    """
    return kd.full_like(x, fill_value, dtype, device=device)


@kd.kernel(wraparound=False)
def fill_diagonal(out, k, *, convert):
    """Fill ``out[m, n]`` with ones on a diagonal, and zeros."""
    i, j = kd.grid(2)
    out[i, j] = convert(1 if j - i == k else 0)


@kd.kernel(wraparound=False)
def cut_triangle(x, out, k, *, is_upper):
    """Copy ``x[a, m, n]`` on one side of a diagonal, and zeros on the other."""
    a, i, j = kd.grid(3)
    if j - i >= k if is_upper else j - i <= k:
        out[a, i, j] = x[a, i, j]
    else:
        out[a, i, j] = 0


@documented_creation
def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: Any = None,
    device: Any = None,
) -> kd.DeviceArray:
    """Make a matrix with ones on a diagonal and zeros elsewhere.

    Parameters
    ----------
    n_rows, n_cols : int
        Numbers of rows and columns; by default equal.
    k : int
        The diagonal: 0 is the main one, 1 the one above.
    {where}

    {returns}
    >>> xp.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    shape = (
        integer_of("n_rows", n_rows, 0),
        integer_of("n_cols", n_rows if n_cols is None else n_cols, 0),
    )
    made = kd.empty(shape, np.float64 if dtype is None else dtype, device=device)
    # All diagonals beyond the matrix have the same effect.
    diagonal = min(max(integer_of("k", k), -shape[0]), shape[1])
    if made.size:
        launch_over(fill_diagonal, shape, made, diagonal, convert=made.dtype.type)
    return made


def _triangle(name: str, side: str, last: str, is_upper: bool) -> Any:
    """Return the function that copies one side of a diagonal."""

    def triangle(x: Any, /, *, k: int = 0) -> kd.DeviceArray:
        check_matrices(x)
        array = contiguous(asarray(x))
        made = kd.empty(array.shape, array.dtype, device=array.device)
        rows, columns = array.shape[-2:]
        if array.size:
            flat = [each.reshape((-1, rows, columns)) for each in (array, made)]
            diagonal = min(max(integer_of("k", k), -rows - columns), rows + columns)
            launch_over(cut_triangle, flat[0].shape, *flat, diagonal, is_upper=is_upper)
        return made

    shown = "[[1.0, 1.0], [0.0, 1.0]]" if is_upper else "[[1.0, 0.0], [1.0, 1.0]]"
    triangle.__name__ = triangle.__qualname__ = name
    summary = f"Copy the {side} triangle of a matrix, or of each matrix of a stack"
    triangle.__doc__ = f"""{summary}; other elements are 0.

    Parameters
    ----------
    x : array of shape (..., m, n)
        Any layout.
    k : int
        The {last} diagonal that is copied: 0 is the main one, 1 the one above.

    {{returns}}
    >>> xp.{name}(xp.ones((2, 2))).tolist()
    {shown}
    """
    return documented_creation(triangle)


tril = _triangle("tril", "lower", "highest", is_upper=False)
triu = _triangle("triu", "upper", "lowest", is_upper=True)
