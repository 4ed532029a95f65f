"""The distinct elements of an array, or its distinct slices, in order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import kerneldsl as kd
from kerneldsl.repeating.recorded_calls import end_by, launch_over
from kerneldsl.utilities.flags import read_flag
from stdlib_kernels.arrays import allocate, constant_beside, finish, on_device
from stdlib_kernels.checks import Array, check_array
from stdlib_kernels.compact.chosen import begins_run, front, is_not_zero, lengths_of, move
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.gathering import take_places
from stdlib_kernels.parameters import axis_or_none
from stdlib_kernels.sort.rows import as_rows, sort_rows

__all__ = ["unique"]


def _differs(x: Any, i: Any) -> Any:
    """Select elements that differ from the one before; NaN differs from all."""
    return i == 0 or x[i - 1] != x[i]


@kd.kernel(wraparound=False)
def mark_slices(x, order, flags):
    """Mark slices that differ from the one before: ``x[k, n], order[n], flags[n]``."""
    i = kd.grid(1)
    differ = i == 0
    if i > 0:
        for k in range(x.shape[0]):
            if x[k, order[i]] != x[k, order[i - 1]]:
                differ = True
    flags[i] = differ


@kd.kernel(wraparound=False)
def number_runs(starts, order, numbers):
    """Find the run of each element: ``starts[m], order[n], numbers[n]``."""
    i = kd.grid(1)
    low, high = 0, starts.size
    while high - low > 1:
        middle = (low + high) // 2
        if starts[middle] <= i:
            low = middle
        else:
            high = middle
    numbers[order[i]] = low


@repeated_function
def unique(
    x: Array,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
) -> Any:
    """Find the distinct elements, or distinct slices along an axis, in ascending order.

    Slices are ordered by their first elements, then by their second ones, and so on.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.
    return_index : bool
        Whether to return also the index of the first occurrence of each.
    return_inverse : bool
        Whether to return also the number of each element of `x` among the distinct ones.
    return_counts : bool
        Whether to return also the number of occurrences of each.
    axis : int, optional
        The axis of the slices; by default elements are compared.
    equal_nan : bool
        Whether NaN are equal to each other; in slices they never are.

    Returns
    -------
    values : array of shape (m,), or of the shape of `x` except for the axis
        Same kind and dtype as `x`. NaN is last; 0 and -0 are equal.
    index : int64 array of shape (m,)
        If `return_index` is True.
    inverse : int64 array of the shape of `x`, or (x.shape[axis],)
        If `return_inverse` is True.
    counts : int64 array of shape (m,)
        If `return_counts` is True.

    See Also
    --------
    numpy.unique

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.compact import unique
    >>> unique(np.array([3, 1, 3])).tolist()
    [1, 3]
    >>> values, index = unique(np.array([[3, 1], [2, 0], [3, 1]]), axis=0, return_index=True)
    >>> values.tolist(), index.tolist()
    ([[2, 0], [3, 1]], [1, 0])
    """
    check_array("x", x, halves=True)
    place = axis_or_none(axis, x.ndim)
    if x.ndim == 1:  # slices are elements, and NaN is equal to NaN
        place = None
    asked: dict[str, Any] = {
        "index": read_flag("return_index", return_index),
        "inverse": read_flag("return_inverse", return_inverse),
        "counts": read_flag("return_counts", return_counts),
    }
    is_run = begins_run if read_flag("equal_nan", equal_nan) else _differs
    source = on_device(x)
    rows, _ = as_rows(source, place)
    if place is not None:
        order = _order_of_slices(rows)
        flags = allocate(rows, order.shape, np.dtype(np.bool_))
        if flags.size:
            launch_over(mark_slices, (flags.size,), rows, order, flags)
        chosen = move(flags, None, is_not_zero)
        return end_by(functools.partial(_slices, **asked), *chosen, order, source, place, x)
    is_ordered = asked["index"] or asked["inverse"]
    ordered, places = sort_rows(rows, gives="places" if is_ordered else "keys")
    flat = ordered.reshape((-1,))
    order = places.reshape((-1,)) if is_ordered else flat
    chosen = move(flat, None, is_run)
    return end_by(functools.partial(_elements, **asked), *chosen, order, flat, x)


def _order_of_slices(rows: Array) -> Array:
    """Return the indices that sort columns, by their last elements first: ``rows[k, n]``."""
    order: Array | None = None
    for k in reversed(range(rows.shape[0])):
        row = rows[k : k + 1]
        row = row if order is None else take_places(row, order, 1)
        places = sort_rows(row, gives="places")[1].reshape((-1,))
        order = places if order is None else take_places(order, places, 0)
    return constant_beside(rows, np.arange(rows.shape[1])) if order is None else order


def _elements(
    found: Array, total: Array, order: Array, x: Array, like: Array, **asked: bool
) -> Any:
    starts = front(found, total)
    values = finish(take_places(x, starts, 0), like=like)
    return _with_others(values, starts, order, like, tuple(like.shape), **asked)


def _slices(
    found: Array, total: Array, order: Array, x: Array, axis: int, like: Array, **asked: bool
) -> Any:
    starts = front(found, total)
    values = finish(take_places(x, take_places(order, starts, 0), axis), like=like)
    return _with_others(values, starts, order, like, (x.shape[axis],), **asked)


def _with_others(
    values: Any, starts: Array, order: Array, like: Array, shape: tuple[int, ...],
    *, index: bool, inverse: bool, counts: bool,
) -> Any:  # fmt: skip
    """Return distinct values and the other requested results, from the starts of their runs."""
    results = []
    if index:
        results.append(take_places(order, starts, 0))
    if inverse:
        numbers = allocate(order, order.shape, np.dtype(np.int64))
        if numbers.size:
            launch_over(number_runs, (numbers.size,), starts, order, numbers)
        results.append(numbers.reshape(shape))
    if counts:
        results.append(lengths_of(starts, order.size))
    others = [finish(each, like=like) for each in results]
    return (values, *others) if others else values
