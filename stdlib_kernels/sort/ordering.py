"""Arrays in order, what puts them in order, and the largest elements.

These are selected where rows are many, and of few found by sorting tiles, of which each gives its
first ones to the next round.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import allocate, contiguous, finish, is_on_host, on_device
from stdlib_kernels.checks import Array, Out, check_alike, check_array, check_out, checked_axis
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.parameters import axis_or_none, integer_of
from stdlib_kernels.sort.rows import MAX_WIDTH, as_rows, select_first, sort_rows, sort_short_rows
from stdlib_kernels.sort.words import Order, as_words, order_of

__all__ = ["argsort", "sort", "sort_pairs", "top_k"]

#: How many are found tile by tile at most; for more of them rows are sorted.
MAX_FIRST = MAX_WIDTH // 8
#: Rows that occupy a GPU with a block each, and elements up to which one block is fast enough; a
#: host sorts tiles in less time.
MANY_ROWS, LONG_ROW = 64, 1 << 16


@repeated_function
def sort(x: Array, axis: int | None = -1, *, descending: bool = False, out: Out = None) -> Any:
    """Sort an array along an axis.

    {parameters: array}
    {sorted axis}
    {out and array}
        Of `x`'s kind and dtype, and its shape, or of shape ``(x.size,)`` without an axis; `out`,
        where it is given. NaN come last, in descending order first; 0 and -0 are equal, and keep
        their order, as all equal elements do. Complex numbers follow their real parts, then their
        imaginary ones, and those with NaN as in NumPy.
    {raises and see: numpy.sort}
    >>> sort(np.array([3, 1, 4, 1, 5])).tolist()
    [1, 1, 3, 4, 5]
    >>> sort(np.array([[3, 1], [4, 1]]), axis=0, descending=True).tolist()
    [[4, 1], [3, 1]]
    """
    return _sorted(x, axis, descending, out, "keys")


@repeated_function
def argsort(x: Array, axis: int | None = -1, *, descending: bool = False, out: Out = None) -> Any:
    """Find the places of the elements that put an array in order along an axis.

    {parameters: array}
    {sorted axis}
    out : int64 array, optional
        Where the result goes, of the result's shape and of `x`'s kind.
    {returns: int64 array}
        Of `x`'s kind, and its shape, or of shape ``(x.size,)`` without an axis; `out`, where it is
        given. The order is that of `sort`; equal elements keep theirs.
    {raises and see: numpy.argsort}
    >>> argsort(np.array([3, 1, 4, 1, 5])).tolist()
    [1, 3, 0, 2, 4]
    """
    return _sorted(x, axis, descending, out, "places")


@repeated_function
def sort_pairs(
    keys: Array, values: Array, axis: int | None = -1, *, descending: bool = False
) -> Any:
    """Sort keys along an axis, and move the values that belong to them.

    {parameters}
    keys : array
        NumPy's, a device array, or one of another library; of any rank and layout. bool, integer,
        float or complex.
    values : array
        Of the kind and shape of `keys`; bool, integer, float or complex.
    {sorted axis}
    {returns: keys, values : array}
        As `sort` returns; the values of equal keys keep their order.
    {raises and see: numpy.argsort}
    >>> keys, values = sort_pairs(np.array([3, 1, 2]), np.array([0.5, 0.25, 0.125]))
    >>> keys.tolist(), values.tolist()
    ([1, 2, 3], [0.25, 0.125, 0.5])
    """
    check_array("keys", keys, halves=True)
    place = axis_or_none(axis, keys.ndim)
    check_array("values", values, halves=True)
    check_alike("values", values, "keys", keys)
    rows, restored = as_rows(on_device(keys), place)
    beside, _ = as_rows(on_device(values), place)
    found = sort_rows(rows, beside, descending=read_flag("descending", descending), gives="values")
    return tuple(finish(restored(each), like=keys) for each in found)


def _sorted(x: Array, axis: int | None, descending: bool, out: Out, gives: str) -> Any:
    """Return the sorted array, or the places of its elements, as `gives` says."""
    check_array("x", x, halves=True)
    place = axis_or_none(axis, x.ndim)
    shape = (x.size,) if place is None else tuple(x.shape)
    check_out(out, like=x, shape=shape, dtype=x.dtype if gives == "keys" else np.dtype(np.int64))
    rows, restored = as_rows(on_device(x), place)
    ordered, places = sort_rows(rows, descending=read_flag("descending", descending), gives=gives)
    return finish(restored(ordered if gives == "keys" else places), like=x, out=out)


@repeated_function
def top_k(x: Array, k: int, axis: int = -1, *, largest: bool = True) -> Any:
    """Find the largest elements along an axis, and their places.

    {parameters: real array}
    k : int
        How many.
    {along}
    largest : bool
        Whether they are the largest, or the smallest.
    {returns: values : array}
        The largest first, or the smallest; of `x`'s kind and dtype, and its shape but for `k`
        along the axis. NaN are larger than all others.
    places : int64 array
        Where along the axis they are. Of equal elements the first is taken.
    {raises and see: numpy.argpartition}
    >>> values, places = top_k(np.array([3, 1, 4, 1, 5]), 2)
    >>> values.tolist(), places.tolist()
    ([5, 4], [4, 2])
    """
    place = checked_axis(x, axis)
    count = integer_of("k", k, 0, x.shape[place])
    rows, restored = as_rows(on_device(x), place)
    order = order_of(x.dtype, descending=read_flag("largest", largest))
    height, width = rows.shape
    found: Any
    if not count or not height:
        found = (allocate(rows, (height, count), d) for d in (x.dtype, np.dtype(np.int64)))
    elif MAX_WIDTH < width <= LONG_ROW and height >= MANY_ROWS and not is_on_host(rows):
        first, where = select_first(as_words(rows), count, order)
        found = sort_rows(first.view(x.dtype), where, descending=largest, gives="values")
    elif width > MAX_WIDTH and count > MAX_FIRST:
        whole = sort_rows(rows, descending=largest, gives="places")
        found = (contiguous(each[:, :count]) for each in whole)
    else:
        found = _first_of_rows(as_words(rows), count, order)
    values, places = (restored(each) for each in found)
    return tuple(finish(each, like=x) for each in (values.view(x.dtype), places))


def _first_of_rows(keys: Array, count: int, order: Order) -> Any:
    """Return the first words of each row, and their places: those of its parts, until it is one."""
    values: Array | None = None
    gives = "places"
    while keys.shape[1] > MAX_WIDTH:
        rows, n = keys.shape
        parts = -(-n // MAX_WIDTH)
        found = sort_short_rows(keys, values, order, gives, count, parts)
        keys, values = (each.reshape((rows, -1)) for each in found if each is not None)
        gives = "values"
    return sort_short_rows(keys, values, order, gives, count)
