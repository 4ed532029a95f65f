"""Elements and indices selected by a condition, and runs of equal elements."""

from __future__ import annotations

import math
from typing import Any

from kerneldsl.errors import ArgumentValueError
from kerneldsl.repeating.recorded_calls import end_by, refuse_to_repeat
from stdlib_kernels.arrays import contiguous_1d, finish, on_device
from stdlib_kernels.checks import Array, Out, check_array, check_out, check_same_kind, check_shape
from stdlib_kernels.compact.chosen import (
    begins_run,
    choose,
    front,
    is_not_zero,
    is_zero,
    lengths_of,
    move,
)
from stdlib_kernels.elementwise.calls import map_call
from stdlib_kernels.functions import repeated_function
from stdlib_kernels.gathering import take_places
from stdlib_kernels.parameters import axis_or_flat

__all__ = ["compress", "flatnonzero", "nonzero", "partition", "run_length"]


def _coordinate(place: Any, step: Any, extent: Any) -> Any:
    return place // step % extent


@repeated_function
def compress(condition: Array, x: Array, axis: int | None = None, *, out: Out = None) -> Any:
    """Select the elements, or slices along an axis, for which a condition is true.

    Parameters
    ----------
    condition : array of shape (m,)
        Same kind as `x`. Elements with a nonzero condition are selected. It may be shorter than the
        axis. If it is longer, the rest must be zero, and the host waits for it.
    x : array
        bool, integer, float or complex; any rank and layout.
    axis : int, optional
        The axis of the slices; by default the array is flattened in C order.
    out : array, optional
        Array for the result, with the result's shape and dtype and the same kind as `x`.

    Returns
    -------
    array
        Same kind and dtype as `x`, in the order of the elements; `out` if it is given.

    See Also
    --------
    numpy.compress

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.compact import compress
    >>> compress(np.array([True, False, True]), np.array([5, 6, 7])).tolist()
    [5, 7]
    >>> compress(np.array([0, 1]), np.array([[1, 2], [3, 4]]), axis=1).tolist()
    [[2], [4]]
    """
    check_array("x", x, halves=True)
    check_array("condition", condition, halves=True, ndim=1)
    check_same_kind("condition", condition, "x", x)
    place = axis_or_flat(axis, x.ndim)
    n = x.size if place is None else x.shape[place]
    flags, source = on_device(condition), on_device(x)
    if condition.size > n:
        flags = _without_rest(flags, n)
    if place is None:
        return end_by(_elements, *move(flags, contiguous_1d(source), is_not_zero), x, out)
    return end_by(_slices, *move(flags, None, is_not_zero), source, place, x, out)


def _without_rest(flags: Array, n: int) -> Array:
    """Return the first flags of a condition; the rest must be zero, and the host waits for it."""
    refuse_to_repeat()
    if front(*move(flags[n:], None, is_not_zero)).size:
        raise ArgumentValueError(
            f"condition selects elements after the last of {n}",
            value=flags.size,
            limit="The rest of a longer condition is zero",
            remedy="Shorten the condition, or set axis",
        )
    return flags[:n]


def _elements(found: Array, total: Array, like: Array, out: Out) -> Any:
    """Return the selected elements, which were moved to the front of another array."""
    part = front(found, total)
    check_out(out, like=like, shape=tuple(part.shape), dtype=part.dtype)
    return finish(part, like=like, out=out)


def _slices(places: Array, total: Array, source: Array, axis: int, like: Array, out: Out) -> Any:
    """Return slices; the front of an array has their indices."""
    found = take_places(source, front(places, total), axis)
    check_out(out, like=like, shape=tuple(found.shape), dtype=found.dtype)
    return finish(found, like=like, out=out)


@repeated_function
def flatnonzero(x: Array) -> Any:
    """Find the indices of the nonzero elements of the flattened array.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.

    Returns
    -------
    int64 array of one axis
        Same kind as `x`, in ascending order. NaN is not zero.

    See Also
    --------
    numpy.flatnonzero

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.compact import flatnonzero
    >>> flatnonzero(np.array([[0, 3], [2, 0]])).tolist()
    [1, 2]
    """
    check_array("x", x, halves=True)
    return end_by(_elements, *move(contiguous_1d(on_device(x)), None, is_not_zero), x, None)


@repeated_function
def nonzero(x: Array) -> Any:
    """Find the indices of the nonzero elements along each axis.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.

    Returns
    -------
    tuple of int64 arrays of one axis
        An array for each axis of `x`, with the same kind. The elements are in C order. NaN is not
        zero.

    Raises
    ------
    kerneldsl.errors.ArgumentValueError
        If `x` has no axes.

    See Also
    --------
    numpy.nonzero

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.compact import nonzero
    >>> [each.tolist() for each in nonzero(np.array([[0, 3], [2, 0]]))]
    [[0, 1], [1, 0]]
    """
    check_array("x", x, halves=True)
    if not x.ndim:
        raise ArgumentValueError(
            "nonzero: x has no axes", value=x, remedy="Reshape it to (1,), or compare it with 0"
        )
    return end_by(_coordinates, *move(contiguous_1d(on_device(x)), None, is_not_zero), x)


def _coordinates(found: Array, total: Array, like: Array) -> tuple[Any, ...]:
    """Return indices along each axis; the front of an array has those of the flattened array."""
    places = front(found, total)
    if like.ndim == 1:
        return (finish(places, like=like),)
    result = []
    for axis, extent in enumerate(like.shape):
        values = [places, math.prod(like.shape[axis + 1 :]), extent]
        result += map_call(_coordinate, values, [places.dtype], [None], places, exact=True)
    return tuple(finish(each, like=like) for each in result)


@repeated_function
def partition(condition: Array, x: Array) -> Any:
    """Move the elements for which a condition is true before the others.

    `numpy.partition` is another function: it partitions by size.

    Parameters
    ----------
    condition : array
        Same kind and shape as `x`. Elements with a nonzero condition are first.
    x : array
        bool, integer, float or complex; any rank and layout.

    Returns
    -------
    elements : array of shape (x.size,)
        Same kind and dtype as `x`. The elements of both parts keep their C order.
    count : int
        The length of the first part.

    See Also
    --------
    numpy.compress

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.compact import partition
    >>> x = np.array([5, 6, 7, 8])
    >>> elements, count = partition(x % 2 == 0, x)
    >>> elements.tolist(), count
    ([6, 8, 5, 7], 2)
    """
    check_array("x", x, halves=True)
    check_array("condition", condition, halves=True)
    check_same_kind("condition", condition, "x", x)
    limit = f"partition(condition, x) has a condition of the shape of x, {tuple(x.shape)}"
    remedy = "Reshape or broadcast it. For NumPy's partition, write sort(x) or top_k(x, k)"
    check_shape("condition", condition, tuple(x.shape), limit, remedy)
    flags, source = (contiguous_1d(on_device(each)) for each in (condition, x))
    return end_by(_parted, *move(flags, source, is_not_zero), flags, source, x)


def _parted(found: Array, total: Array, flags: Array, source: Array, like: Array) -> Any:
    """Return an array with the selected elements before the others, and their number."""
    count = front(found, total).size
    choose(flags, source, is_zero, found[count:])
    return finish(found, like=like), count


@repeated_function
def run_length(x: Array) -> Any:
    """Find the runs of equal elements.

    Parameters
    ----------
    x : array
        bool, integer, float or complex; any rank and layout.

    Returns
    -------
    values : array of shape (m,)
        The element of each run, in C order. Same kind and dtype as `x`. NaN are equal to each
        other, and so are 0 and -0.
    lengths : int64 array of shape (m,)
        The lengths of the runs. Same kind as `x`.

    See Also
    --------
    numpy.unique

    Examples
    --------
    >>> import numpy as np
    >>> from stdlib_kernels.compact import run_length
    >>> values, lengths = run_length(np.array([7, 7, 3, 7]))
    >>> values.tolist(), lengths.tolist()
    ([7, 3, 7], [2, 1, 1])
    """
    check_array("x", x, halves=True)
    flat = contiguous_1d(on_device(x))
    return end_by(_runs, *move(flat, None, begins_run), flat, x)


def _runs(found: Array, total: Array, x: Array, like: Array) -> tuple[Any, Any]:
    """Return the values and lengths of runs; the front of an array has their starts."""
    starts = front(found, total)
    lengths = lengths_of(starts, x.size)
    return finish(take_places(x, starts, 0), like=like), finish(lengths, like=like)
