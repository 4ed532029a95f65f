"""Reductions of arrays or along axes, cumulative sums and products, and differences."""

from __future__ import annotations

from typing import Any

from kerneldsl.errors import ArgumentValueError
from stdlib_kernels import reduce, scan
from stdlib_kernels.array_api.binary import not_equal, subtract
from stdlib_kernels.array_api.manipulation import concat
from stdlib_kernels.arrays import allocate
from stdlib_kernels.checks import Array, check_array
from stdlib_kernels.functions import library_function
from stdlib_kernels.parameters import accumulator_dtype, axis_of, dtype_of, integer_of
from stdlib_kernels.reduce import all, any, argmax, argmin, count_nonzero, max, mean, min, std, var

__all__ = [
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
]

sum, prod = reduce.sum, reduce.prod


def _cumulative(
    name: str, said: str, accumulated: Any, none: int, dtypes: str, example: str
) -> Any:
    """Return the function that adds or multiplies all elements up to each."""

    def cumulative(
        x: Array,
        /,
        *,
        axis: int | None = None,
        dtype: Any = None,
        include_initial: bool = False,
    ) -> Any:
        check_array("x", x, halves=True)
        if axis is None and x.ndim != 1:
            raise ArgumentValueError(
                f"an array of {x.ndim} axes has no axis to go along by default",
                value=axis,
                limit="axis may be omitted for arrays of one axis",
                remedy="Pass axis, or reshape the array to (-1,)",
            )
        at = 0 if axis is None else axis_of(axis, x.ndim)
        result = dtype_of(dtype, accumulator_dtype(x.dtype))
        found = accumulated(x, at, dtype=result)
        if not include_initial:
            return found
        shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
        initial = allocate(found, shape, result, zero=none == 0)
        if none:
            initial[...] = none
        return concat((initial, found), axis=at)

    cumulative.__name__ = cumulative.__qualname__ = name
    cumulative.__doc__ = f"""Compute the {said} of all elements up to each element.

    Parameters
    ----------
    x : array
        {dtypes}; any rank and layout.
    axis : int, optional
        The axis; not needed for arrays of one axis.
    dtype : dtype, optional
        Dtype of the computation and of the result. By default int64 for booleans and signed
        integers, uint64 for unsigned ones, and the dtype of the array for others.
    include_initial : bool
        Whether the result begins with {none}.

    Returns
    -------
    array
        Same kind as `x`, with its shape plus an initial element.

    See Also
    --------
    numpy.{name}

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import {name}
    >>> {name}(np.array([1, 2, 4]), include_initial=True).tolist()
    {example}
    """
    return library_function(cumulative)


_NUMBERS = "bool, integer, float or complex"
cumulative_sum = _cumulative("cumulative_sum", "sum", scan.cumsum, 0, _NUMBERS, "[0, 1, 3, 7]")
_REAL = "bool, integer or float"
cumulative_prod = _cumulative("cumulative_prod", "product", scan.cumprod, 1, _REAL, "[1, 1, 2, 8]")


@library_function
def diff(
    x: Array,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Array | None = None,
    append: Array | None = None,
) -> Any:
    """Subtract from each element the one before it along an axis.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int
        The axis of the differences.
    n : int
        The order of the differences.
    prepend, append : array, optional
        Arrays to join before and after `x` first. Same kind as `x`.

    Returns
    -------
    array
        Same kind and dtype as `x`, and `n` elements shorter along the axis. For booleans, whether
        two elements differ.

    See Also
    --------
    numpy.diff

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.array_api import diff
    >>> diff(np.array([1, 4, 9])).tolist()
    [3, 5]
    """
    check_array("x", x, halves=True)
    at, times = axis_of(axis, x.ndim), integer_of("n", n, 0)
    if not times:
        return x
    given = tuple(each for each in (prepend, x, append) if each is not None)
    found: Any = concat(given, axis=at) if len(given) > 1 else x
    before = (slice(None),) * at
    for _ in range(times):
        subtracted = not_equal if found.dtype.kind == "b" else subtract
        found = subtracted(found[(*before, slice(1, None))], found[(*before, slice(None, -1))])
    return found
