"""Binary search in sorted arrays, and merging of two sorted arrays.

References
----------
Nadathur Satish, Mark Harris and Michael Garland, "Designing Efficient Sorting Algorithms for
Manycore GPUs", IPDPS 2009: merging by the rank of each element in the other array.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import launch_over
from stdlib_kernels.arrays import allocate, constant_beside, contiguous, finish, on_device
from stdlib_kernels.checks import Array, Out, check_array, check_out, check_same_kind, check_shape
from stdlib_kernels.elementwise.calls import Number
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.gathering import check_indices, check_range, take_places
from stdlib_kernels.parameters import choice_of, common_dtype, computing_dtype, is_number

__all__ = ["merge", "searchsorted"]


def _is_before(a: Any, b: Any) -> Any:
    return a < b or (b != b and a == a)  # noqa: PLR0124 - NaN come last


def _is_complex_before(a: Any, b: Any) -> Any:
    """Return whether a complex number is before another one: by NaN, real and imaginary parts."""
    first = (2 if a.real != a.real else 0) + (1 if a.imag != a.imag else 0)
    second = (2 if b.real != b.real else 0) + (1 if b.imag != b.imag else 0)
    if first != second:
        return first < second
    if a.real < b.real or b.real < a.real:
        return a.real < b.real
    return a.imag < b.imag


@cache
def _rank_of(dtype: np.dtype[Any]) -> Any:
    """Return a function that counts the elements of a sorted array before a value.

    They are compared in a dtype. If `is_after_equal`, equal elements count, too.
    """
    before: Any = _is_complex_before if dtype.kind == "c" else _is_before
    number = dtype.type

    def rank(x: Any, v: Any, is_after_equal: Any) -> Any:
        low, high = 0, x.size
        while low < high:
            middle = (low + high) // 2
            w = number(x[middle])
            if before(w, v) or (is_after_equal and not before(v, w)):
                low = middle + 1
            else:
                high = middle
        return low

    return rank


@kd.kernel(wraparound=False)
def find_ranks(x, v, out, *, number, rank, is_after_equal):
    """Find the index of each value in a sorted array: ``x[n], v[m], out[m]``."""
    i = kd.grid(1)
    out[i] = rank(x, number(v[i]), is_after_equal)


@kd.kernel(wraparound=False)
def merge_two(x, y, out, *, number, rank):
    """Merge sorted arrays, equal elements of the first one first: ``x[n], y[m], out[n + m]``."""
    i = kd.grid(1)
    if i < x.size:
        v = number(x[i])
        out[i + rank(y, v, False)] = v
    elif i < out.size:
        v = number(y[i - x.size])
        out[i - x.size + rank(x, v, True)] = v


@repeated_function
def searchsorted(
    x: Array,
    v: Array | Number,
    side: str = "left",
    *,
    sorter: Array | None = None,
    out: Out = None,
) -> Any:
    """Find the indices at which values belong into a sorted array.

    Parameters
    ----------
    x : array of shape (n,)
        bool, integer, float or complex, in the order of `sort`; any layout.
    v : array or number
        The values. Any shape and layout. Same kind as `x`.
    side : str
        ``"left"``: before elements that are equal to a value. ``"right"``: after them.
    sorter : array of shape (n,), optional
        The indices that sort `x`, as `argsort` returns them; then `x` need not be sorted. Same kind
        as `x`.
    out : int64 array, optional
        Array for the result. Same shape and kind as `v`.

    Returns
    -------
    int64 array
        For each value, the number of elements before it. Same shape and kind as `v`. `out` if it is
        given.

    See Also
    --------
    numpy.searchsorted

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.sort import searchsorted
    >>> searchsorted(np.array([1, 3, 3, 7]), np.array([3, 8])).tolist()
    [1, 4]
    >>> searchsorted(np.array([1, 3, 3, 7]), np.array([3, 8]), "right").tolist()
    [3, 4]
    """
    check_array("x", x, halves=True, ndim=1)
    source = on_device(x)
    if is_number(v):
        values = constant_beside(source, np.asarray(v).reshape(1))
        check_array("v", values, halves=True)
        shape: tuple[int, ...] = ()
    else:
        given: Any = v
        check_array("v", given, halves=True)
        check_same_kind("v", given, "x", x)
        values, shape = contiguous(on_device(given)).reshape((-1,)), tuple(given.shape)
    number = computing_dtype(common_dtype(x, values)).type
    choice_of("side", side, ("left", "right"))
    check_out(out, like=x, shape=shape, dtype=np.dtype(np.int64))
    if sorter is not None:
        source = _in_order(source, sorter, x)
    found = allocate(values, values.shape, np.dtype(np.int64))
    if values.size:
        how = {"rank": _rank_of(np.dtype(number)), "is_after_equal": side == "right"}
        launch_over(find_ranks, (values.size,), source, values, found, number=number, **how)
    return finish(found.reshape(shape), like=x, out=out)


def _in_order(source: Array, sorter: Any, x: Array) -> Array:
    """Return elements in the order of given indices."""
    check_indices("sorter", sorter, x)
    check_shape("sorter", sorter, (x.size,), f"There must be a place for each of {x.size} elements")
    places = on_device(sorter)
    check_range("sorter", places, x.size, 0, "Take what argsort(x) returns")
    return take_places(source, places, 0)


@repeated_function
def merge(x: Array, y: Array, *, out: Out = None) -> Any:
    """Merge two sorted arrays.

    Parameters
    ----------
    x : array of shape (n,)
        bool, integer, float or complex, in the order of `sort`; any layout.
    y : array of shape (m,)
        The other array, sorted in the same way. Same kind as `x`.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array of shape (n + m,)
        All elements in ascending order, those of `x` before equal ones of `y`. Same kind as `x`,
        and NumPy's dtype for both. `out` if it is given.

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.sort import merge
    >>> merge(np.array([1, 4]), np.array([0, 4, 5])).tolist()
    [0, 1, 4, 4, 5]
    """
    for name, each in (("x", x), ("y", y)):
        check_array(name, each, halves=True, ndim=1)
    check_same_kind("y", y, "x", x)
    dtype, shape = common_dtype(x, y), (x.size + y.size,)
    check_out(out, like=x, shape=shape, dtype=dtype)
    source, other = on_device(x), on_device(y)
    found = allocate(source, shape, dtype)
    if found.size:
        number = computing_dtype(dtype).type
        how = {"number": number, "rank": _rank_of(np.dtype(number))}
        launch_over(merge_two, (found.size,), source, other, found, **how)
    return finish(found, like=x, out=out)
