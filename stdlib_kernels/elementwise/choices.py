"""Elements that are chosen, bounded or converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.errors import ArgumentTypeError
from stdlib_kernels.arrays import Array, check_array, computing_dtype
from stdlib_kernels.elementwise.calls import (
    Number,
    checked_operands,
    common_dtype,
    map_call,
    widened,
)
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import dtype_of, scalar_of
from stdlib_kernels.reduce.folding import larger, smaller

__all__ = ["astype", "clip", "where"]


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    return x if condition != 0 else y


def _itself(v: Any) -> Any:
    return v


def _bounded(v: Any, low: Any, high: Any) -> Any:
    return smaller(larger(v, low), high)


@repeated_function
def where(
    condition: Array | Number, x: Array | Number, y: Array | Number, *, out: Any = None
) -> Any:
    """Choose each element from one of two arrays.

    {parameters}
    condition : array or number
        Where it is not 0, the element is that of `x`; of any rank and layout. bool, integer, float
        or complex.
    x, y : array or number
        Of `condition`'s kind; the three are broadcast against each other.
    {out}
    {returns: array}
        Of the arrays' kind and of NumPy's dtype for `x` and `y`; `out`, where it is given.
    {raises of: ArgumentError}
        Where there is no array, or the arrays do not fit each other.
    {see: numpy.where}
    {examples}
    >>> where(np.array([True, False]), np.array([1, 2]), 0).tolist()
    [1, 0]
    """
    like = checked_operands([("condition", condition), ("x", x), ("y", y)])
    dtype = common_dtype(x, y)
    number = computing_dtype(dtype)
    values = [condition, _number("x", x, dtype), _number("y", y, dtype)]
    to = [widened(condition), number.type, number.type]
    return map_call(_chosen, values, [dtype], [out], like, convert=to, exact=True)[0]


@repeated_function
def clip(
    x: Array,
    min: Array | Number | None = None,
    max: Array | Number | None = None,
    *,
    out: Any = None,
) -> Any:
    """Bound each element from below and from above.

    {parameters: real array}
    min, max : array or number, optional
        The bounds, which are broadcast against `x`; no bound by default. Where they cross, it is
        `max` that counts.
    {out}
    {returns: array}
        Of `x`'s kind and of NumPy's dtype for all three; `out`, where it is given. Of a NaN
        anywhere it is NaN.
    {raises and see: numpy.clip}
    {examples}
    >>> clip(np.array([-3, 1, 9]), 0, 5).tolist()
    [0, 1, 5]
    """
    check_array("x", x, kinds="biuf", halves=True)
    named = [("x", x), *((n, v) for n, v in (("min", min), ("max", max)) if v is not None)]
    like = checked_operands(named)
    dtype = common_dtype(*(value for _, value in named))
    function: Any = {(True, True): _bounded, (True, False): larger, (False, True): smaller}.get(
        (min is not None, max is not None), _itself
    )
    values = [_number(name, value, dtype) for name, value in named]
    to = [computing_dtype(dtype).type] * len(values)
    return map_call(function, values, [dtype], [out], like, convert=to, exact=True)[0]


@repeated_function
def astype(x: Array, dtype: Any, *, out: Array | None = None) -> Any:
    """Convert the elements to another dtype.

    {parameters: array}
    dtype : dtype
        The new one.
    {out}
    {returns: array}
        A new one of `x`'s shape and kind; `out`, where it is given. A float that the dtype does not
        hold becomes what the device makes of it.
    {raises and see: numpy.ndarray.astype}
    {examples}
    >>> astype(np.array([-1.5, 2.5]), np.int32).tolist()
    [-1, 2]
    """
    check_array("x", x, halves=True)
    found = dtype_of(dtype, x.dtype)
    if x.dtype.kind == "c" and found.kind != "c":
        raise ArgumentTypeError(
            f"an array of dtype {x.dtype} was to be converted to {found}",
            value=found,
            limit="The imaginary parts would be lost",
            remedy="Take .real, or abs(), of each element by map(…)",
        )
    return map_call(_itself, [x], [found], [out], x, convert=[widened(x)])[0]


def _number(name: str, value: Any, dtype: np.dtype[Any]) -> Any:
    """Return an array as it is, and a number in the dtype in which a result is computed."""
    if isinstance(value, int | float | complex | np.number | np.bool_):
        return scalar_of(name, value, computing_dtype(dtype))
    return value
