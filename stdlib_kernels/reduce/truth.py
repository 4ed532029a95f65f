"""Truth values of elements: whether any or all are not zero, and how many."""

from __future__ import annotations

from typing import Any

import numpy as np

from stdlib_kernels.arrays import Array, check_array, computing_dtype
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.reduce.calls import Axis, fold_call
from stdlib_kernels.reduce.folding import Rule, add

__all__ = ["all", "any", "count_nonzero"]


def _is_not_zero(v: Any, w: Any, parameter: Any) -> Any:
    return v != 0


def _either(a: Any, b: Any) -> Any:
    return a | b


def _both(a: Any, b: Any) -> Any:
    return a & b


@repeated_function
def any(x: Array, axis: Axis = None, *, out: Array | None = None, keepdims: bool = False) -> Any:
    """Tell whether any element is not zero, of all or along axes.

    {parameters of a reduction}

    {reduced}
        A bool, which of no elements is False.

    {raises}

    {see: numpy.any}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import any
    >>> any(np.array([[0, 0], [0, 2]]), axis=1).tolist()
    [False, True]
    """
    return _truth(x, axis, np.bool_, _either, np.bool_(False), out, keepdims)


@repeated_function
def all(x: Array, axis: Axis = None, *, out: Array | None = None, keepdims: bool = False) -> Any:
    """Tell whether no element is zero, of all or along axes.

    {parameters of a reduction}

    {reduced}
        A bool, which of no elements is True.

    {raises}

    {see: numpy.all}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import all
    >>> all(np.array([[1, 0], [3, 2]]), axis=1).tolist()
    [False, True]
    """
    return _truth(x, axis, np.bool_, _both, np.bool_(True), out, keepdims)


@repeated_function
def count_nonzero(
    x: Array, axis: Axis = None, *, out: Array | None = None, keepdims: bool = False
) -> Any:
    """Count the elements that are not zero, of all or along axes.

    {parameters of a reduction}

    {reduced}
        An int64.

    {raises}

    {see: numpy.count_nonzero}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import count_nonzero
    >>> count_nonzero(np.array([[1, 0], [3, 2]]), axis=1).tolist()
    [1, 2]
    """
    return _truth(x, axis, np.int64, add, np.int64(0), out, keepdims)


def _truth(
    x: Array, axis: Axis, dtype: Any, op: Any, identity: Any, out: Array | None, keepdims: bool
) -> Any:
    check_array("x", x, halves=True)
    rule = Rule(op=op, identity=identity, number=computing_dtype(x.dtype).type, lift=_is_not_zero)
    return fold_call(rule, x, axis, np.dtype(dtype), out=out, keepdims=keepdims)
