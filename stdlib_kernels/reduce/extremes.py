"""The largest and the smallest elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from stdlib_kernels.arrays import Array, check_array, computing_dtype
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.reduce.calls import Axis, check_not_empty, fold_call
from stdlib_kernels.reduce.folding import Rule, larger, smaller

__all__ = ["least", "max", "min", "most"]


def least(dtype: np.dtype[Any]) -> Any:
    """Return the smallest number of a dtype, -inf of floats."""
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min)
    return dtype.type(0) if dtype.kind == "b" else dtype.type(-np.inf)


def most(dtype: np.dtype[Any]) -> Any:
    """Return the largest number of a dtype, inf of floats."""
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).max)
    return dtype.type(1) if dtype.kind == "b" else dtype.type(np.inf)


@repeated_function
def max(x: Array, axis: Axis = None, *, out: Array | None = None, keepdims: bool = False) -> Any:
    """Find the largest element of an array, of all or along axes.

    {parameters of an extreme}

    {reduced}
        A NaN is larger than every number; which of 0 and -0 is found is not said.

    {raises}
    {empty}

    {see: numpy.max}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import max
    >>> max(np.array([[3, 1, 4], [1, 5, 9]]), axis=1).tolist()
    [4, 9]
    """
    return _extreme("max", x, axis, out, keepdims)


@repeated_function
def min(x: Array, axis: Axis = None, *, out: Array | None = None, keepdims: bool = False) -> Any:
    """Find the smallest element of an array, of all or along axes.

    {parameters of an extreme}

    {reduced}
        A NaN is smaller than every number; which of 0 and -0 is found is not said.

    {raises}
    {empty}

    {see: numpy.min}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import min
    >>> int(min(np.array([3, 1, 4])))
    1
    """
    return _extreme("min", x, axis, out, keepdims)


def _extreme(name: str, x: Array, axis: Axis, out: Array | None, keepdims: bool) -> Any:
    check_array("x", x, kinds="biuf", halves=True)
    check_not_empty(name, x, axis)
    number = computing_dtype(x.dtype)
    op, identity = (larger, least(number)) if name == "max" else (smaller, most(number))
    rule = Rule(op=op, identity=identity, number=number.type)
    return fold_call(rule, x, axis, x.dtype, out=out, keepdims=keepdims)
