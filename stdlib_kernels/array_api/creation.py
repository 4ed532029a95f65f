"""Arrays of one value, of a shape or like another array."""

from __future__ import annotations

from typing import Any

import numpy as np

import kerneldsl as kd
from stdlib_kernels.array_api.conversion import documented_creation

__all__ = ["empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like"]


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
