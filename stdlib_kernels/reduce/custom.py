"""Reductions by a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stdlib_kernels.arrays import Array, check_array, computing_dtype
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import dtype_of, function_of, scalar_of
from stdlib_kernels.reduce.calls import Axis, fold_call
from stdlib_kernels.reduce.folding import Rule

__all__ = ["reduce"]


@repeated_function
def reduce(
    x: Array,
    op: Callable[[Any, Any], Any],
    identity: Any,
    axis: Axis = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    keepdims: bool = False,
) -> Any:
    """Combine the elements of an array two by two, all or along axes.

    {parameters of a reduction}
    op : function
        Of two values, a plain function, a lambda or one under `kerneldsl.func`, which kernels can
        call. It must be associative and commutative: elements meet in any order. A function is
        compiled once; a new one of the same text is compiled anew.
    identity : number
        What `op` leaves every value unchanged with; it is combined with elements more than once.
    dtype : dtype, optional
        In which values are combined, and of the result; by default the array's own.

    {reduced}
        float16 and bfloat16 are combined as float32. No elements come to `identity`.

    {raises}
    kerneldsl.errors.KernelError
        Where `op` cannot be compiled.

    {see: numpy.ufunc.reduce}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.reduce import reduce
    >>> reduce(np.array([[12, 18], [8, 20]]), lambda a, b: a | b, 0, axis=1).tolist()
    [30, 28]
    """
    check_array("x", x, halves=True)
    result = dtype_of(dtype, x.dtype)
    number = computing_dtype(result)
    rule = Rule(function_of("op", op), scalar_of("identity", identity, number), number.type)
    return fold_call(rule, x, axis, result, out=out, keepdims=keepdims)
