"""Cumulative sums, products and extremes, and scans by a function of the caller's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stdlib_kernels.arrays import Array, accumulator_dtype, check_array, computing_dtype
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import dtype_of, function_of, scalar_of
from stdlib_kernels.reduce.extremes import least, most
from stdlib_kernels.reduce.folding import Rule, add, larger, multiply, smaller
from stdlib_kernels.scan.calls import scan_call

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "scan"]


@repeated_function
def cumsum(
    x: Array,
    axis: int | None = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Any:
    """Add up the elements before and at each place.

    {parameters of a scan}
    {accumulating dtype}

    {scanned}
        Integers wrap around as in NumPy. Floats are added in another order than NumPy's, the same
        at every launch; float16 and bfloat16 as float32.

    {raises}

    {see: numpy.cumsum}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import cumsum
    >>> cumsum(np.array([3, 1, 4, 1, 5], np.uint8)).tolist()
    [3, 4, 8, 9, 14]
    >>> cumsum(np.array([[3, 1], [4, 1]]), axis=1, exclusive=True).tolist()
    [[0, 3], [0, 4]]
    """
    return _accumulated(x, axis, dtype, out, exclusive, reverse, add)


@repeated_function
def cumprod(
    x: Array,
    axis: int | None = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Any:
    """Multiply the elements before and at each place.

    {parameters of a scan}
    {accumulating dtype}

    {scanned}

    {raises}

    {see: numpy.cumprod}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import cumprod
    >>> cumprod(np.array([3, 1, 4]), reverse=True).tolist()
    [12, 4, 4]
    """
    return _accumulated(x, axis, dtype, out, exclusive, reverse, multiply)


@repeated_function
def cummax(
    x: Array,
    axis: int | None = None,
    *,
    out: Array | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Any:
    """Find the largest of the elements before and at each place.

    {parameters of a scan}

    {scanned}
        From a NaN on all are NaN. Before the first element the largest is the least number of the
        dtype, -inf of floats.

    {raises}

    {see: numpy.ufunc.accumulate}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import cummax
    >>> cummax(np.array([3, 1, 4, 1, 5])).tolist()
    [3, 3, 4, 4, 5]
    """
    return _extremes(x, axis, out, exclusive, reverse, is_max=True)


@repeated_function
def cummin(
    x: Array,
    axis: int | None = None,
    *,
    out: Array | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Any:
    """Find the smallest of the elements before and at each place.

    {parameters of a scan}

    {scanned}
        From a NaN on all are NaN. Before the first element the smallest is the dtype's largest
        number, inf of floats.

    {raises}

    {see: numpy.ufunc.accumulate}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import cummin
    >>> cummin(np.array([3, 1, 4, 1, 5])).tolist()
    [3, 1, 1, 1, 1]
    """
    return _extremes(x, axis, out, exclusive, reverse, is_max=False)


@repeated_function
def scan(
    x: Array,
    op: Callable[[Any, Any], Any],
    identity: Any,
    axis: int | None = None,
    *,
    dtype: Any = None,
    out: Array | None = None,
    exclusive: bool = False,
    reverse: bool = False,
) -> Any:
    """Combine the elements before and at each place by a function.

    {parameters of a scan}
    op : function
        Of two values, a plain function, a lambda or one under `kerneldsl.func`, which kernels can
        call. It must be associative, and need not be commutative: the first value comes from
        earlier elements. A function is compiled once; a new one of the same text is compiled anew.
    identity : number
        What `op` leaves every value unchanged with; it is combined with elements more than once.
    dtype : dtype, optional
        In which values are combined, and of the result; by default the array's own.

    {scanned}
        float16 and bfloat16 are combined as float32. What `op` returns is converted to the dtype.

    {raises}
    kerneldsl.errors.KernelError
        Where `op` cannot be compiled.

    {see: numpy.ufunc.accumulate}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.scan import scan
    >>> scan(np.array([8, 2, 3]), lambda a, b: a | b, 0).tolist()
    [8, 10, 11]
    """
    check_array("x", x, kinds="biuf", halves=True)
    result = dtype_of(dtype, x.dtype, kinds="biuf")
    number = computing_dtype(result)
    rule = Rule(function_of("op", op), scalar_of("identity", identity, number), number.type)
    return scan_call(rule, x, axis, result, out=out, exclusive=exclusive, reverse=reverse)


def _accumulated(
    x: Array,
    axis: int | None,
    dtype: Any,
    out: Array | None,
    exclusive: bool,
    reverse: bool,
    op: Callable[[Any, Any], Any],
) -> Any:
    check_array("x", x, kinds="biuf", halves=True)
    result = dtype_of(dtype, accumulator_dtype(x.dtype), kinds="iuf")
    number = computing_dtype(result)
    # A sum of negative zeros is one, which 0 + -0 is not.
    identity = number.type(1 if op is multiply else -0.0 if number.kind == "f" else 0)
    rule = Rule(op, identity, number.type)
    return scan_call(rule, x, axis, result, out=out, exclusive=exclusive, reverse=reverse)


def _extremes(
    x: Array, axis: int | None, out: Array | None, exclusive: bool, reverse: bool, *, is_max: bool
) -> Any:
    check_array("x", x, kinds="biuf", halves=True)
    number = computing_dtype(x.dtype)
    rule = Rule(larger, least(number), number.type)
    if not is_max:
        rule = Rule(smaller, most(number), number.type)
    return scan_call(rule, x, axis, x.dtype, out=out, exclusive=exclusive, reverse=reverse)
